#pragma once
// Spawns workers and evaluators together with their computing actors. Called by
// session clients, on their thread.

#include "actors/user_process/process_line.hpp"
#include "actors/user_process/shared_blocks.hpp"
#include "actors/user_process/user_process_state.hpp"
#include "actors/worker/computing.hpp"
#include "messages/interfaces.hpp"

#include <memory>

namespace troupe {

worker_actor make_worker(caf::actor_system& system,
                         const computing_parts& computing,
                         const session_client_actor& session);

/// The process that computes for a worker, or scores for an evaluator.
struct external_compute {
  external::process_line_ptr line; ///< Null: this process computes.
  external::hello said;
  external::shared_places memory; ///< Shared with it.
};

/// A worker for which another process computes. The session client gets to know
/// when that process is gone.
worker_actor make_worker(caf::actor_system& system,
                         const computing_parts& computing,
                         const external_compute& by,
                         const session_client_actor& session);

evaluator_actor make_evaluator(caf::actor_system& system,
                               const computing_parts& computing,
                               const session_client_actor& session);

/// An evaluator for which another process scores.
evaluator_actor make_evaluator(caf::actor_system& system,
                               const user_process_parts& parts);

} // namespace troupe
