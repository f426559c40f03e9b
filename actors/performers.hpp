#pragma once
// Workers and evaluators with the computing actors that belong to them.

#include "actors/computing.hpp"
#include "messages/interfaces.hpp"

namespace troupe {

worker_actor make_worker(caf::actor_system& system,
                         const computing_parts& computing,
                         const connector_actor& home);

evaluator_actor make_evaluator(caf::actor_system& system,
                               const computing_parts& computing,
                               const connector_actor& home);

} // namespace troupe
