#pragma once
// Reads the frames of a process that computes, on a thread of its own, and
// sends them to the actor that they are for. It ends when there are no more.

#include "actors/user_process/process_line.hpp"
#include "messages/interfaces.hpp"

#include <atomic>
#include <memory>

namespace troupe {

void read_frames(caf::actor_system& system, external::process_line_ptr line,
                 frame_owner_actor owner);

/// Tells the session client when the process has ended. Watches until `begun`
/// is true, since until then nobody reads the frames of the process.
void watch_process(caf::actor_system& system, external::process_line_ptr line,
                   session_client_actor session,
                   std::shared_ptr<const std::atomic<bool>> begun);

} // namespace troupe
