#pragma once
// An evaluator without a parameter server: watches a folder of checkpoints and
// scores the newest one, or with `every` those of each such step in their
// order, as evaluators on a shared file system do. The scores are kept in a
// file. It ends when the run's summary exists and its last checkpoint is
// scored.
//
// An actor; one in a process that only evaluates.

#include "actors/recording/kept_scores.hpp"
#include "actors/runtime/run_clock.hpp"
#include "actors/worker/computing.hpp"
#include "config/runs/description.hpp"
#include "config/runs/shared_settings.hpp"
#include "messages/interfaces.hpp"
#include "models/storage/checkpoint.hpp"

#include <filesystem>
#include <functional>
#include <optional>

namespace troupe {

struct follower_parts {
  config::settings settings;
  std::filesystem::path folder; ///< A run directory, or its `checkpoints`.
  int threads = 1;
  supervisor_actor supervisor;
  /// Settings that were given to this node; the run must have the same.
  config::pairs given{};
  bool data_dir_given =
    false; ///< By a flag: the run's data must have use for it.
};

class follower_state {
public:
  using pointer = follower_actor::stateful_pointer<follower_state>;

  static constexpr const char* name = "troupe.follower";

  follower_state(pointer self, follower_parts parts);

  follower_actor::behavior_type make_behavior();

private:
  void look();
  void wait_for_run();
  bool look_at_next(bool over);
  std::optional<models::loaded_checkpoint> next(bool over);
  std::optional<models::loaded_checkpoint>
  next_in_order(const std::vector<models::checkpoint_entry>& all, bool over);
  void require_settings(const config::run_description& run,
                        const config::settings& joined) const;
  void prepare(config::run_description run,
               const models::loaded_checkpoint& newest);
  void keep_scores(const models::loaded_checkpoint& newest);
  void evaluate(version number, const payload& weights, const payload& average);
  void score_weights(version number, const payload& weights, bool of_average,
                     std::function<void(const score&)> then);
  void report_score(const score& found);
  void end(const run_end& how);

  pointer self_;
  follower_parts parts_;
  run_clock clock_;
  std::filesystem::path checkpoints_;
  std::filesystem::path summary_;
  std::optional<version> seen_;
  config::settings settings_;   ///< This node's, with those of the run.
  config::run_description run_; ///< The run that the scorer was made for.
  scorer_actor scorer_;
  int64_t classes_ = 0;
  std::optional<recording::kept_scores> scores_; ///< If they can be kept.
  bool waits_ = false;                           ///< It has said that it waits.
};

} // namespace troupe
