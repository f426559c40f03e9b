#pragma once
// Draws durations from the distributions that the settings declare. A value,
// owned by the simulated machine; thread-safe as long as it is const.

#include "config/values/distribution.hpp"
#include "messages/ids.hpp"

#include <cstdint>
#include <functional>

namespace troupe::simulation {

/// The durations of all workers. A draw is a function of (seed, worker, number
/// of the draw) alone (counter-based: Philox 4x32-10), so that another worker,
/// another policy or a cancelled computation does not change any other draw.
class durations {
public:
  durations(const config::distribution& times, uint64_t seed);

  /// Seconds of the worker's n-th draw.
  /// @pre n < 2^40
  double draw(worker_id who, uint64_t n) const;

  /// Computes seconds from a worker and its random stream.
  class stream;
  using sampler = std::function<double(worker_id, stream&)>;

private:
  sampler sample_;
  uint64_t seed_;
};

} // namespace troupe::simulation
