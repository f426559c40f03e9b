#pragma once
// When to try again after a failure: delays that grow, with random jitter.
//
// A value without a clock; times are arguments. Each owner of a retry (session
// clients, for example) keeps its own. Not thread-safe.

#include "actors/core/counter_random.hpp"
#include "actors/core/progress_deadline.hpp"

#include <optional>

namespace troupe::cores {

/// All times in seconds.
struct backoff_rules {
  double first = 0.02; ///< Delay before the second try, without jitter: short,
                       ///< since nodes that start together miss each other by
                       ///< little.
  double factor = 1.5; ///< Each delay is longer than the last by this ...
  double cap = 5;      ///< ... up to this.
  double jitter = 0.5; ///< Up to this share of a delay is cut off at random,
                       ///< so that many clients do not come back at once.
  double give_up = 60; ///< Total time to keep trying; infinity: for ever.
};

/// The delays of one series of tries. A value; the clock is an argument.
class backoff {
public:
  /// Begins a series at `now`. Give each client a seed of its own.
  backoff(const backoff_rules& rules, counter_random random, double now);

  /// A try has failed at `now`. Returns the seconds until the next one, or
  /// nothing when it is time to give up. The last try is made when the total
  /// time is reached.
  std::optional<double> next(double now);

  /// The current try has come to `point`. If that is another point than before,
  /// the total time begins anew. Returns whether it is.
  bool reached(uint64_t point, double now) { return end_.reached(point, now); }

  /// A try has succeeded: the next failure begins a new series.
  void reset();

  /// Failures in this series so far.
  uint32_t failures() const { return failures_; }

private:
  backoff_rules rules_;
  counter_random random_;
  progress_deadline end_;
  double delay_;
  uint32_t failures_ = 0;
  bool waiting_ = false; ///< No try has failed since `reset`.
};

} // namespace troupe::cores
