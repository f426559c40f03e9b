#pragma once
// The plain link between a participant and a server in one process.
//
// Spawned by the session client; an actor.

#include "messages/interfaces.hpp"

namespace troupe {

/// The link inside one process: passes every message on, payloads as pointers.
/// The server answers the worker directly.
/// @param modules What computes parts of the network; null: there are none.
remote_module_actor spawn_local_link(caf::actor_system& system,
                                     const parameter_server_actor& server,
                                     const module_actor& modules = {});

} // namespace troupe
