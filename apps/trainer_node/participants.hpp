#pragma once
// Spawns workers and evaluators together with their computing actors. Called by
// session clients, on their thread.

#include "actors/worker/computing.hpp"
#include "messages/interfaces.hpp"

namespace troupe {

namespace simulation {
struct machine;
} // namespace simulation

worker_actor make_worker(caf::actor_system& system,
                         const computing_parts& computing,
                         const session_client_actor& session);

/// A worker whose machine is simulated.
worker_actor make_worker(caf::actor_system& system,
                         const computing_parts& computing,
                         const std::shared_ptr<simulation::machine>& machine,
                         worker_id who, const session_client_actor& session);

evaluator_actor make_evaluator(caf::actor_system& system,
                               const computing_parts& computing,
                               const session_client_actor& session);

} // namespace troupe
