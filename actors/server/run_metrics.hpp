#pragma once
// What a run measures about itself. As a subscriber of the server's events it
// keeps the counts for summary.json and for checkpoints, and makes the notes
// from which the recorder writes metrics and reports progress.
//
// Owned by the parameter server and called on its thread; not thread-safe.

#include "actors/core/push_hash.hpp"
#include "actors/events/event.hpp"
#include "actors/recording/notes.hpp"
#include "actors/recording/run_statistics.hpp"
#include "actors/runtime/wall_clock.hpp"
#include "actors/server/lead.hpp"
#include "actors/server/standstill.hpp"
#include "config/text/settings.hpp"
#include "models/storage/best_weights.hpp"

#include <limits>
#include <optional>
#include <set>
#include <string>
#include <unordered_map>
#include <vector>

namespace troupe {

struct run_metrics_parts {
  config::settings settings;
  std::string run_id;
  /// Changes of the settings that this start of the run made.
  std::vector<config::change> changes;
  /// The server's scheduler: it knows who is waited for and how far the data
  /// has come.
  const cores::step_scheduler* scheduler = nullptr;
  /// s without a step after which it is said for whom the run waits; 0: never.
  double standstill = 0;
  bool launched = false; ///< Whoever has started the run follows its progress.
};

class run_metrics final : public event_subscriber {
public:
  run_metrics(note_sink& to, run_metrics_parts parts);

  /// Continues from the counts of a checkpoint; returns its times.
  recording::run_times load(const proto::Counters& from);

  /// Continues from the best weights on disk, which may come from steps that
  /// were rolled back.
  void load(const models::best_score& kept);

  void on_event(const event& entry) override;

  /// To be called every second or so: records that there was no step for long.
  void note_standstill();

  /// Records that a worker has failed that had no place any more.
  void note_left(worker_id who, life_number life, const std::string& reason);

  const recording::run_statistics& statistics() const { return statistics_; }

  const std::optional<score>& last_score() const { return last_score_; }

  /// Passes over the data so far: samples that were applied or left out,
  /// divided by the samples of an epoch.
  double epochs() const;

private:
  void count_input(const event& at, const inputs::started& cause);
  void count_input(const event& at, const inputs::enlisted& cause);
  void count_input(const event& at, const inputs::left& cause);
  void count_input(const event& at, const inputs::arrived& cause);
  void count_input(const event& at, const inputs::scored& cause);
  void count_input(const event& at, const inputs::saved& cause);
  void count_input(const event& at, const inputs::ending& cause);

  template <class Other>
  void count_input(const event&, const Other&) {
    // nop
  }

  void note_members(const event& at);
  uint32_t missing_workers() const;
  void drop(const event& at, const cores::dropped_push& push);
  void apply(const event& at, const cores::update_order& step, double rate);
  push_header take_header(const push_id& id);
  void note_epochs(version at);
  double samples_per_second() const;
  recording::progress_figures progress(version at) const;

  template <class What>
  void record(version step, What&& body) {
    sink_.record(std::make_shared<note>(
      note{step.value, sink_.elapsed(), std::forward<What>(body)}));
  }

  note_sink& sink_;
  run_metrics_parts parts_;
  recording::run_statistics statistics_;
  /// The headers of gradients that the policy has not yet decided on.
  std::unordered_map<push_id, push_header, cores::push_hash> held_;
  /// The gradient of the event at hand, until it is decided on; else null.
  const push_header* arrived_ = nullptr;
  std::optional<score> last_score_;
  double last_loss_ = std::numeric_limits<double>::quiet_NaN();
  uint64_t epochs_noted_ = 0;
  std::set<worker_id> announced_;
  /// Whose gradient is in the weights, if that is told.
  std::set<worker_id> contributed_;
  std::set<worker_id> absent_; ///< They have left and not come back.
  standstill standstill_;
  wall_clock wall_;
  double progress_due_ = 0; ///< On `wall_`: when to update a terminal again.
};

} // namespace troupe
