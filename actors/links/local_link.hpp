#pragma once

#include "messages/interfaces.hpp"

namespace troupe {

/// The link inside one process: hands every message on, payloads as the
/// pointers that they are. The server answers the worker directly.
parameter_server_actor spawn_local_link(caf::actor_system& system,
                                        const parameter_server_actor& server);

} // namespace troupe
