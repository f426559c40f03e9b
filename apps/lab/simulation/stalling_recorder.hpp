#pragma once
// A recorder that stands still while faults say so: notes wait, in their order.
// For the virtual clock with faults.

#include "apps/lab/simulation/machine.hpp"
#include "messages/interfaces.hpp"

#include <memory>

namespace troupe::simulation {

/// In the place of `real`, which ends with it.
recorder_actor
spawn_stalling_recorder(caf::actor_system& system, const recorder_actor& real,
                        const std::shared_ptr<const machine>& shared);

} // namespace troupe::simulation
