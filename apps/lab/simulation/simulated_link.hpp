#pragma once
// A link with latency and bandwidth, for the virtual clock.
//
// An actor beside the worker, made for its session client; with faults, an
// actor for each of its two ends.

#include "actors/links/push_observer.hpp"
#include "actors/session/session_client.hpp"
#include "apps/lab/simulation/link_faults.hpp"

#include <algorithm>
#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <optional>

namespace troupe {

/// How a simulated link delays messages.
struct link_terms {
  double latency = 0; ///< s for every message, each way.
  /// Bytes of tensors per second, each way; tensors queue behind each other.
  double rate = std::numeric_limits<double>::infinity();
  /// Bytes assumed for a tensor that does not exist (`--gradients none`).
  uint64_t tensor_bytes = 0;
  uint64_t compressed_bytes =
    0;                    ///< Of a compressed gradient; 0: no compression.
  uint32_t fragments = 1; ///< That such a tensor would have.

  uint64_t bytes_of(const payload& tensor, bool is_fragment) const {
    auto all = is_fragment ? tensor_bytes / fragments : tensor_bytes;
    return tensor ? tensor.shape().bytes() : all;
  }

  uint64_t bytes_of_gradient(const payload& gradient) const {
    auto plain = bytes_of(gradient, fragments > 1);
    return compressed_bytes > 0 ? compressed_bytes * plain / tensor_bytes
                                : plain;
  }

  bool delays() const {
    return latency > 0 || rate < std::numeric_limits<double>::infinity();
  }
};

/// Whether an answer has one fragment of the weights.
inline bool has_fragment(const release_header& answer) {
  return answer.goes_on;
}

inline bool has_fragment(const watch_header&) {
  return false;
}

/// Bytes of the activations in a call, or in its answer.
inline uint64_t bytes_of(const module_call& call) {
  return call.inputs.numbers.shape().bytes() + call.statistics.shape().bytes();
}

inline uint64_t bytes_of(const module_answer& answer) {
  return answer.outputs.numbers.shape().bytes() +
         answer.statistics.shape().bytes();
}

/// One direction of a simulated link: messages do not overtake each other.
class link_direction {
public:
  /// The time at which all bytes of a message sent at `now` have left; the
  /// message arrives when the latency is over, too.
  double passed(double now, uint64_t bytes, const link_terms& terms) {
    free_at_ =
      std::max(free_at_, now) + static_cast<double>(bytes) / terms.rate;
    return free_at_;
  }

private:
  double free_at_ = 0;
};

/// What faults need to act on a link.
struct link_faults {
  worker_id rank;
  double silence = 15; ///< s until an end takes the other for dead.
  std::shared_ptr<simulation::network> lines;
  std::shared_ptr<push_observer> watch;
  /// Finds the current server, for messages that outlive the link.
  std::function<std::optional<local_server>()> find;
};

/// Makes a link that takes time: a message arrives when the ones before it have
/// arrived, its bytes have passed at the link's rate, and its latency is over.
/// With faults (of workers only) it also breaks; see faulty_link.hpp.
made_link spawn_simulated_link(caf::actor_system& system, const far_end& with,
                               const participant& who, const link_terms& terms,
                               const std::optional<link_faults>& faults = {});

} // namespace troupe
