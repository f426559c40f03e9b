#pragma once
// Starts the workers and the evaluator of `--simulate`: on threads in real
// time, or on simulated machines under the virtual clock. Called by main's
// thread.

#include "actors/segments/remote_module.hpp"
#include "actors/session/session_client.hpp"
#include "actors/worker/computing.hpp"
#include "apps/lab/simulation/machine.hpp"
#include "apps/lab/simulation/simulated_link.hpp"
#include "messages/interfaces.hpp"

#include <memory>

namespace troupe::app {

/// The terms of the links that the settings declare, for tensors of this shape
/// and gradients with this compression.
link_terms link_terms_of(const config::simulation_settings& settings,
                         const payload_shape& weights,
                         const compression& packs);

/// In real time: each worker takes a thread or two.
void start_members(caf::actor_system& system, const computing_parts& computing,
                   const compression& packs, const module_roster_ptr& roster,
                   const local_server& with);

/// Under the virtual clock: each worker takes a few bytes; tensors on the links
/// count `weights` bytes.
void start_members(caf::actor_system& system, const computing_parts& computing,
                   const std::shared_ptr<simulation::machine>& machine,
                   const payload_shape& weights, const compression& packs,
                   const module_roster_ptr& roster, const local_server& with);

} // namespace troupe::app
