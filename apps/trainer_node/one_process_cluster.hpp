#pragma once
// Starts the workers and the evaluator of `--simulate`, on threads in real
// time. Called by main's thread.

#include "actors/segments/remote_module.hpp"
#include "actors/session/session_client.hpp"
#include "actors/worker/computing.hpp"
#include "messages/interfaces.hpp"

#include <functional>

namespace troupe::app {

/// Starts the members; each worker takes a thread or two.
void start_members(caf::actor_system& system, const computing_parts& computing,
                   const compression& packs, const module_roster_ptr& roster,
                   const local_server& with);

// What clusters in one process have in common:

/// Finds, or makes, what the link of a participant leads to.
using far_end_factory = std::function<far_end(const local_server&)>;

/// The session client of the evaluator.
local_session_client_parts evaluator_of(caf::actor_system& system,
                                        const computing_parts& computing,
                                        const local_server& with);

/// Makes the remote module that `find` gives the link of a participant, if
/// there are remote modules and the parts do not tie links themselves.
void tie_to_modules(const computing_parts& computing,
                    const far_end_factory& find,
                    local_session_client_parts& parts);

/// Starts a session client, which connects its participant.
session_client_actor connect(caf::actor_system& system,
                             local_session_client_parts parts);

} // namespace troupe::app
