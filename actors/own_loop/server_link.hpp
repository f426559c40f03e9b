#pragma once
// What the objects of a training loop share: the loop's thread, which asks its
// training-loop actor and waits for the answers. Inside of this folder only.

#include "actors/own_loop/training_loop.hpp"

#include <caf/actor_system.hpp>
#include <caf/blocking_actor.hpp>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace troupe::remote {

/// Owned by the loop's thread, and used on it.
class server_link {
public:
  server_link(caf::blocking_actor* self, training_loop_actor there,
              const training_loop_parts& parts);

  /// Waits for the next batch; nothing when the run is over.
  std::optional<compute_task> next();

  // Each throws `cancelled` if the batch is no longer wanted, and usage_error
  // for calls in a wrong order.

  activations forward(lease_id in, const activations& inputs);
  void backward(lease_id in, const activations& gradient);
  void push(lease_id which, double loss);

  /// A flat tensor of these numbers.
  at::Tensor read(context_part place);

  /// Does not throw.
  void give_back(lease_id which);

  /// NaN: not known.
  double accuracy();

  const std::vector<remote_parameter>& parameters() const {
    return parameters_;
  }

private:
  template <class... Ts>
  module_answer ask(const Ts&... request);

  caf::blocking_actor* self_;
  training_loop_actor there_;
  std::vector<remote_parameter> parameters_;
  uint64_t most_elements_;
  config::scalar_type dtype_;
};

/// Runs the function of these parts on a thread of its own.
caf::actor start(caf::actor_system& system, const training_loop_actor& there,
                 const training_loop_parts& parts);

} // namespace troupe::remote
