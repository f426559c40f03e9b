#pragma once
// A cluster reduced to its waiting: workers that only take time, links that
// take none, and a policy. It uses no actors, so its figures are a check on
// those of the actors under the virtual clock. Pure functions.

#include "actors/policies/policy.hpp"

#include <functional>
#include <random>

namespace troupe::test {

using random_engine = std::mt19937_64;

/// Seconds that a worker takes for one gradient.
using compute_time = std::function<double(worker_id, random_engine&)>;

compute_time constant_time(double seconds);

/// `offset` plus an exponential time.
compute_time exponential_time(double offset, double mean);

/// `cv` is the standard deviation over the mean.
compute_time gamma_time(double mean, double cv);

/// `base`, with probability `p` multiplied by `factor`.
compute_time transient_time(compute_time base, double p, double factor);

/// `base`, for one worker always multiplied by `factor`.
compute_time slow_time(compute_time base, worker_id who, double factor);

struct cluster_figures {
  double seconds = 0; ///< From the start to the last update.
  uint64_t steps = 0;
  uint64_t applied = 0;
  uint64_t dropped = 0;
  double mean_staleness = 0;
  uint64_t max_staleness = 0;
  std::vector<uint64_t> applied_of; ///< By worker.

  double seconds_per_step() const {
    return seconds / static_cast<double>(steps);
  }

  double seconds_per_gradients(uint32_t n) const {
    return seconds * n / static_cast<double>(applied);
  }
};

/// Runs spec.workers workers until so many steps are made. The same arguments
/// give the same figures.
cluster_figures simulate_cluster(const policies::policy_spec& spec,
                                 const compute_time& takes, uint64_t steps,
                                 uint64_t seed = 1);

} // namespace troupe::test
