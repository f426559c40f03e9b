#pragma once
// What a worker exchanges with the owners of parts of its network: activations
// and their gradients. Plain values; the numbers are shared and immutable.

#include "messages/ids.hpp"
#include "messages/lease.hpp"
#include "messages/payload.hpp"
#include "messages/real.hpp"

#include <cstdint>
#include <memory>
#include <vector>

namespace troupe {

struct stage_context; // what a stage computes a batch with

using stage_context_ptr = std::shared_ptr<stage_context>;

/// The outputs of a part of a network for some samples, or their gradient.
struct activations {
  payload numbers;            ///< Empty: none.
  std::vector<int64_t> sizes; ///< [n, ...]
  /// In memory the channels, sizes[1], come last; else the order is that of
  /// sizes.
  bool channels_last = false;
};

/// Has a segment of a network computed for one micro-batch, forward or
/// backward.
struct module_call {
  /// The trainer's lease. It names the context that gathers the gradient, and
  /// keys the masks of dropout layers.
  lease from;
  version weights;      ///< The trainer computes on this version.
  uint32_t segment = 0; ///< Its number in the network.
  uint32_t server =
    0; ///< Rank of the shard that has it; stays with the trainer.
  uint64_t first = 0; ///< Of the micro-batch: where it begins in the lease.
  bool last = true;   ///< Whether it is the lease's last.
  activations inputs; ///< Backward: the gradient of the outputs.
  /// Backward in half precision: the factor of the loss, and so of the inputs.
  /// The owner divides the gradient of the lease by it; 0: the loss has no
  /// factor.
  real scale{};
  /// The running statistics of the segment to start from; only with the first
  /// forward pass of a lease, and to an owner elsewhere. Else empty.
  payload statistics;
};

/// Asks for numbers of a context, at the owner of the parameters: elements of
/// the flat buffers.
struct context_part {
  lease_id from;
  uint32_t server = 0;  ///< Rank of their shard.
  bool gradient = true; ///< Else the weights on which it is computed.
  uint64_t first = 0;
  uint64_t count = 0;
};

template <class Inspector>
bool inspect(Inspector& f, context_part& x) {
  return f.object(x).fields(
    f.field("from", x.from), f.field("server", x.server),
    f.field("gradient", x.gradient), f.field("first", x.first),
    f.field("count", x.count));
}

/// The answer to a call.
struct module_answer {
  bool cancelled = false; ///< If true, ignore the rest.
  activations outputs{};  ///< Backward: the gradient of the inputs, if any.
  payload statistics{};   ///< With the last backward pass: the new ones.
  real seconds{};         ///< Time that the pass took.
  /// With the last backward pass: the gradient under its scale was not finite.
  bool overflow = false;
};

} // namespace troupe
