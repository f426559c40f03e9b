#pragma once

#include "messages/interfaces.hpp"

#include <cstdint>
#include <limits>

namespace troupe {

/// How a simulated link delays what it carries.
struct link_terms {
  double latency = 0; ///< s of every message, each way.
  /// Bytes of tensors a second, each way; they queue behind each other.
  double rate = std::numeric_limits<double>::infinity();
  /// Bytes of a tensor that is not there (`--gradients none`).
  uint64_t tensor_bytes = 0;
  uint64_t compressed_bytes =
    0; ///< Of any gradient, if it is compressed; else 0.

  uint64_t bytes_of(const payload& tensor) const {
    return tensor ? tensor.shape().bytes() : tensor_bytes;
  }

  uint64_t bytes_of_gradient(const payload& gradient) const {
    return compressed_bytes > 0 ? compressed_bytes : bytes_of(gradient);
  }

  bool delays() const {
    return latency > 0 || rate < std::numeric_limits<double>::infinity();
  }
};

/// A link that takes time: a message arrives when those before it are through,
/// its bytes have passed at the link's rate, and its latency is over. For the
/// virtual clock.
parameter_server_actor
spawn_simulated_link(caf::actor_system& system,
                     const parameter_server_actor& server,
                     const link_terms& terms);

} // namespace troupe
