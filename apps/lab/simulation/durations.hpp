#pragma once
// Drawing from the declared distributions of durations.

#include "config/values/distribution.hpp"
#include "messages/ids.hpp"

#include <cstdint>
#include <functional>

namespace troupe::simulation {

/// The durations of every worker. A draw is a function of (seed, worker, number
/// of the draw) alone (counter-based: Philox 4x32-10), so that another worker,
/// another policy or a cancelled computation changes nobody else's draws.
class durations {
public:
  durations(const config::distribution& what, uint64_t seed);

  /// Seconds of the worker's n-th draw.
  /// @pre n < 2^40
  double draw(worker_id who, uint64_t n) const;

  /// Makes seconds from a worker and its random stream.
  class stream;
  using sampler = std::function<double(worker_id, stream&)>;

private:
  sampler sample_;
  uint64_t seed_;
};

} // namespace troupe::simulation
