#pragma once
// The workers and the evaluator of `--simulate`: on threads in real time, or on
// simulated machines under the virtual clock.

#include "actors/computing.hpp"
#include "actors/connector.hpp"
#include "actors/simulation/machine.hpp"
#include "messages/interfaces.hpp"

#include <memory>

namespace troupe::app {

/// The links that the settings declare, for tensors of this shape, and for
/// gradients that are packed like this.
link_terms link_terms_of(const config::simulation_settings& settings,
                         const payload_shape& weights, const packing& packs);

/// Every worker a thread, or two.
void fill_stage(caf::actor_system& system, const computing_parts& computing,
                const packing& packs, const house& with);

/// Every worker a few bytes; tensors of `weights` bytes on the links.
void fill_stage(caf::actor_system& system, const computing_parts& computing,
                const std::shared_ptr<simulation::machine>& machine,
                const payload_shape& weights, const packing& packs,
                const house& with);

} // namespace troupe::app
