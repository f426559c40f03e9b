#pragma once
// A link with latency and bandwidth, for the virtual clock.
//
// An actor beside the worker; made by its session client.

#include "messages/interfaces.hpp"

#include <cstdint>
#include <limits>

namespace troupe {

/// How a simulated link delays messages.
struct link_terms {
  double latency = 0; ///< s for every message, each way.
  /// Bytes of tensors per second, each way; tensors queue behind each other.
  double rate = std::numeric_limits<double>::infinity();
  /// Bytes assumed for a tensor that does not exist (`--gradients none`).
  uint64_t tensor_bytes = 0;
  uint64_t compressed_bytes =
    0; ///< Of a compressed gradient; 0: no compression.

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

/// A link that takes time: a message arrives when the ones before it have
/// arrived, its bytes have passed at the link's rate, and its latency is over.
/// For the virtual clock only.
parameter_server_actor
spawn_simulated_link(caf::actor_system& system,
                     const parameter_server_actor& server,
                     const link_terms& terms);

} // namespace troupe
