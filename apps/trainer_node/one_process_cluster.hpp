#pragma once
// The workers and the evaluator of `--simulate`: on threads in real time, or on
// simulated machines under the virtual clock.

#include "actors/session/session_client.hpp"
#include "actors/worker/computing.hpp"
#include "apps/lab/simulation/machine.hpp"
#include "messages/interfaces.hpp"

#include <memory>

namespace troupe::app {

/// The links that the settings declare, for tensors of this shape, and for
/// gradients that are compressed like this.
link_terms link_terms_of(const config::simulation_settings& settings,
                         const payload_shape& weights,
                         const compression& packs);

/// Every worker a thread, or two.
void start_members(caf::actor_system& system, const computing_parts& computing,
                   const compression& packs, const local_server& with);

/// Every worker a few bytes; tensors of `weights` bytes on the links.
void start_members(caf::actor_system& system, const computing_parts& computing,
                   const std::shared_ptr<simulation::machine>& machine,
                   const payload_shape& weights, const compression& packs,
                   const local_server& with);

} // namespace troupe::app
