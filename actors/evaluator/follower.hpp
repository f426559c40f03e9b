#pragma once
// An evaluator without a parameter server: watches a folder of checkpoints and
// scores the newest one, as evaluators on a shared file system do. It ends when
// the run's summary exists and its last checkpoint is scored.
//
// An actor; one in a process that only evaluates.

#include "actors/worker/computing.hpp"
#include "config/sources/description.hpp"
#include "messages/interfaces.hpp"
#include "models/storage/checkpoint.hpp"

#include <filesystem>
#include <functional>
#include <optional>

namespace troupe {

/// The follower's interface; it sends `tick_atom` to itself.
using follower_actor = caf::typed_actor<
  // Looks for a newer checkpoint.
  result<void>(tick_atom),
  // Ends, because of a signal.
  result<void>(ended_atom, run_end)>;

struct follower_parts {
  config::settings settings;
  std::filesystem::path folder; ///< A run directory, or its `checkpoints`.
  int threads = 1;
  supervisor_actor supervisor;
};

class follower_state {
public:
  using pointer = follower_actor::stateful_pointer<follower_state>;

  static constexpr const char* name = "troupe.follower";

  follower_state(pointer self, follower_parts parts);

  follower_actor::behavior_type make_behavior();

private:
  void look();
  bool look_at_newest();
  void prepare(config::run_description run,
               const models::loaded_checkpoint& newest);
  void evaluate(version what, const payload& weights, const payload& average);
  void score_weights(version what, const payload& weights, bool of_average,
                     std::function<void(const score&)> then);
  void take(const score& found);
  void end(const run_end& how);

  pointer self_;
  follower_parts parts_;
  std::filesystem::path checkpoints_;
  std::filesystem::path summary_;
  std::optional<version> seen_;
  config::settings settings_;   ///< This node's, with those of the run.
  config::run_description run_; ///< The run that the scorer was made for.
  scorer_actor scorer_;
  int64_t classes_ = 0;
};

} // namespace troupe
