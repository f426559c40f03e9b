#pragma once
// Counts what happens to gradients and samples, for summary.json and for the
// manifest of a checkpoint. Pure: everything is passed in, times included.
//
// Owned by the run metrics, on the parameter server's thread; not thread-safe.

#include "config/values/metrics.hpp"
#include "messages/ids.hpp"

#include <cstdint>
#include <optional>
#include <vector>

namespace troupe::proto {
class Counters;
} // namespace troupe::proto

namespace troupe::recording {

struct summary;

/// Where a worker's time went for one push.
struct push_times {
  double compute_seconds = 0; ///< Batch, forward and backward.
  double wait_seconds = 0;    ///< For the parameter server's last answer.
  double data_seconds = 0;    ///< Part of compute_seconds, for the batch.
  double idle_seconds = 0; ///< Part of compute_seconds; of a stage, on average.
};

/// Seconds since the run began; a resumed run continues the count of its
/// checkpoint.
struct run_times {
  double elapsed_seconds = 0;            ///< On the run's clock.
  double wall_seconds = 0;               ///< On the wall clock.
  std::optional<double> virtual_seconds; ///< Virtual clock only.
};

/// The best score up to a checkpoint.
struct best_so_far {
  config::metric_order by;
  config::metric found;
  uint64_t step = 0;
};

/// The best score in these counters; nothing if there was no score.
std::optional<best_so_far> best_in(const proto::Counters& in);

class run_statistics {
public:
  /// The last entry of the histogram counts all gradients of at least this
  /// staleness.
  static constexpr size_t max_staleness_place = 1023;

  /// @param workers The configured size of the cluster; the count grows when
  /// more join.
  explicit run_statistics(uint32_t workers,
                          std::optional<config::metric_order> best_by = {});

  // -- events -----------------------------------------------------------------

  void applied(worker_id who, uint64_t samples, uint64_t staleness,
               push_times times);

  void dropped(worker_id who, uint64_t samples, push_times times);

  void refused(worker_id who, push_times times);

  /// Workers met this many damaged samples; other samples replace them.
  void skipped(uint64_t samples) { samples_skipped_ += samples; }

  /// Workers computed so many batches again, at a smaller scale of the loss.
  void overflowed(uint64_t batches) { fp16_overflows_ += batches; }

  /// A version was scored. Without an order, the first score chooses one.
  void evaluated(uint64_t step, const config::metrics& found);

  // -- figures ----------------------------------------------------------------

  uint64_t samples_applied() const noexcept { return samples_applied_; }

  uint64_t gradients_applied() const noexcept { return gradients_applied_; }

  double staleness_mean() const noexcept;

  /// The share of the workers' time that was spent waiting; 0 before any push.
  double wait_share() const noexcept;

  /// The share of the workers' time that was spent waiting for batches.
  double data_wait_share() const noexcept;

  /// Of the time that stages of pipelines were at work, the share in which they
  /// had nothing to do.
  double bubble_share() const noexcept;

  /// For each worker: applied gradients / gradients decided on; nothing for a
  /// worker that never pushed.
  std::vector<std::optional<double>> accepted_share() const;

  /// For each worker: its mean time for a gradient, batch, forward and
  /// backward, divided by the median of all workers' means; nothing for a
  /// worker that never pushed. 1: as fast as usual; 2: takes twice as long.
  std::vector<std::optional<double>> slowness() const;

  /// The same of the gradients since the last call, or since the run began, or
  /// went on.
  std::vector<std::optional<double>> take_recent_slowness();

  /// The order that decides which score is the best; nothing until it is known.
  const std::optional<config::metric_order>& best_by() const noexcept {
    return best_by_;
  }

  std::optional<double> best_value() const noexcept { return best_value_; }

  std::optional<uint64_t> best_step() const noexcept { return best_step_; }

  /// Fills in the fields of a summary that this object knows.
  /// `samples_per_second` is per virtual second when virtual time is given,
  /// else per wall second.
  void fill(summary& out, const run_times& times) const;

  // -- checkpoints ------------------------------------------------------------

  void save(proto::Counters& out, const run_times& times) const;

  /// Replaces all counts by those of a checkpoint. Returns the times at the
  /// checkpoint, from which the caller's clocks continue.
  run_times load(const proto::Counters& in);

private:
  struct worker_counts {
    uint64_t pushed = 0;
    uint64_t accepted = 0;
    push_times times;
    // As they were when the recent slowness was last taken.
    uint64_t pushed_before = 0;
    double seconds_before = 0;
  };

  worker_counts& decided(worker_id who, push_times times);

  /// The share of these seconds in the time of all workers.
  double share_of(double push_times::*these) const noexcept;

  uint64_t samples_applied_ = 0;
  uint64_t samples_dropped_ = 0;
  uint64_t gradients_applied_ = 0;
  uint64_t gradients_dropped_ = 0;
  uint64_t gradients_refused_ = 0;
  uint64_t samples_skipped_ = 0;
  uint64_t fp16_overflows_ = 0;
  std::vector<uint64_t> histogram_;
  uint64_t staleness_sum_ = 0;
  uint64_t staleness_max_ = 0;
  std::vector<worker_counts> workers_;
  std::optional<config::metric_order> best_by_;
  std::optional<double> best_value_;
  std::optional<uint64_t> best_step_;
};

} // namespace troupe::recording
