#pragma once
// The workers and the evaluator of `--simulate`: on threads in real time, or on
// simulated machines under the virtual clock.

#include "actors/computing.hpp"
#include "actors/simulation/machine.hpp"
#include "messages/interfaces.hpp"

#include <memory>

namespace troupe::app {

/// Whom the performers of this process work with.
struct house {
  lead_actor lead;
  coordinator_actor coordinator;
};

/// Every worker a thread, or two.
void fill_stage(caf::actor_system& system, const computing_parts& computing,
                const house& with);

/// Every worker a few bytes; tensors of `weights` bytes on the links.
void fill_stage(caf::actor_system& system, const computing_parts& computing,
                const std::shared_ptr<simulation::machine>& machine,
                const payload_shape& weights, const house& with);

} // namespace troupe::app
