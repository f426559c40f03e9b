#pragma once
// What a run measures about itself, as a subscriber of the server's events: the
// counts of summary.json and of checkpoints, and the notes from which the
// recorder writes metrics and tells how the run goes.
//
// Not thread-safe; one owner.

#include "actors/core/push_hash.hpp"
#include "actors/recording/notes.hpp"
#include "actors/recording/run_statistics.hpp"
#include "actors/runtime/wall_clock.hpp"
#include "actors/server/event.hpp"
#include "config/text/settings.hpp"
#include "models/storage/best_weights.hpp"

#include <functional>
#include <limits>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

namespace troupe {

struct run_metrics_parts {
  config::settings settings;
  std::string run_id;
  /// That this start made.
  std::vector<config::change> changes;
  /// Of the server: who is waited for, how far the data has come.
  const cores::step_scheduler* scheduler = nullptr;
  std::function<double()> elapsed; ///< s on the run's clock.
  /// Takes a note for the recorder.
  std::function<void(note_ptr)> tell;
};

class run_metrics final : public event_subscriber {
public:
  explicit run_metrics(run_metrics_parts parts);

  /// Goes on from the counts of a checkpoint; returns its times.
  recording::run_times load(const proto::Counters& from);

  /// What was rolled back left its best weights behind.
  void load(const models::best_score& kept);

  void on_event(const event& what) override;

  const recording::run_statistics& statistics() const { return statistics_; }

  const std::optional<score>& last_score() const { return last_score_; }

  /// Passes over the data so far: samples in the weights, or left out of an
  /// epoch, by those of an epoch.
  double epochs() const;

private:
  void take(const event& at, const inputs::started& what);
  void take(const event& at, const inputs::enlisted& what);
  void take(const event& at, const inputs::left& what);
  void take(const event& at, const inputs::arrived& what);
  void take(const event& at, const inputs::scored& what);
  void take(const event& at, const inputs::saved& what);
  void take(const event& at, const inputs::ending& what);

  template <class Other>
  void take(const event&, const Other&) {
    // nop
  }

  void drop(const event& at, const cores::dropped_push& what);
  void apply(const event& at, const cores::update_order& step, double rate);
  void note_epochs(version at);
  double samples_per_second() const;
  recording::progress_figures progress(version at) const;

  template <class What>
  void record(version step, What&& what) {
    parts_.tell(std::make_shared<note>(
      note{step.value, parts_.elapsed(), std::forward<What>(what)}));
  }

  run_metrics_parts parts_;
  recording::run_statistics statistics_;
  /// Of gradients that the policy has not yet decided on.
  std::unordered_map<push_id, push_header, cores::push_hash> held_;
  std::optional<score> last_score_;
  double last_loss_ = std::numeric_limits<double>::quiet_NaN();
  uint64_t epochs_noted_ = 0;
  wall_clock wall_;
  double progress_due_ = 0; ///< On `wall_`: when to tell a terminal again.
};

} // namespace troupe
