#pragma once
// The bodies of the frames by which a process is asked for a gradient, and of
// its answer (docs/formats.md). Plain functions; any thread.

#include "actors/user_process/frames.hpp"
#include "config/values/metrics.hpp"
#include "data/sampling/permutation.hpp"
#include "messages/lease.hpp"
#include "models/layout/shard_cuts.hpp"

#include <string>
#include <vector>

namespace troupe::external {

/// The body for a lease: its epoch, its part, and its samples in their order.
std::string lease_body(const lease& work, data::epoch_order& order);

/// What a round has got, or gives: a block, and what of it is exchanged.
struct exchanged {
  block_place block;
  models::element_range elements;
};

/// What else the process is told of weights.
struct weights_terms {
  version number;
  bool last_was_dropped = false; ///< The gradient before.
  bool goes_on = false;          ///< As in a release_header.
  uint64_t steps = 0; ///< Local ones of a round on these weights; 0: none.
};

/// The body for weights: where they are and where the next gradient is to be.
std::string weights_body(const weights_terms& terms, const exchanged& gets,
                         const exchanged& gives);

/// What the process says of a gradient.
struct gradient_answer {
  uint64_t samples = 0;
  double loss = 0; ///< Mean over the samples.
  /// Leases that it covers besides its own, by the numbers of their frames.
  std::vector<uint64_t> also;
  config::metrics metrics;
};

/// @param who Names the process in errors. Throws `run_error`.
gradient_answer read_gradient(const std::string& body, const std::string& who);

} // namespace troupe::external
