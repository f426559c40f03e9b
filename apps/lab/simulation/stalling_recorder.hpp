#pragma once
// A recorder that can be stalled by faults: notes then wait, in their order. An
// actor of a virtual run with faults, in front of the real recorder.

#include "apps/lab/simulation/machine.hpp"
#include "messages/interfaces.hpp"

#include <memory>

namespace troupe::simulation {

/// Takes the place of `real`, which ends with it.
recorder_actor
spawn_stalling_recorder(caf::actor_system& system, const recorder_actor& real,
                        const std::shared_ptr<const machine>& shared);

} // namespace troupe::simulation
