#pragma once
// Inline execution: the thread that sends a message also does the work that the
// message causes.
//
// A thread that has computed a gradient, or read one from a socket, has nothing
// to do until its answer arrives. Waking another thread for each actor on the
// way costs more than the work of these actors, and usually takes the core from
// a thread that computes while the core of the first one is idle. So the thread
// itself runs the scheduled actors on the way: worker, link, parameter server.
// Each of them handles one message, or a few brief ones; what else waits for it
// is left to the scheduler's threads. docs/design/0009.

#include <caf/actor_system.hpp>
#include <caf/actor_system_config.hpp>

#include <functional>

namespace troupe {

/// Enables inline execution for systems of this configuration. Their scheduler
/// then has one queue, shared by `threads` threads of its own. In other
/// systems, such as those of the virtual clock, `run_inline` only calls
/// `begin`.
void allow_inline_execution(caf::actor_system_config& config, size_t threads);

/// Calls `begin`, then runs the actors that its messages make ready, and those
/// that these make ready, and so on. To be called only by threads of detached
/// actors, which do not become ready themselves before they return. Returns
/// when no ready actor is left, so do not call it while somebody waits for this
/// thread.
void run_inline(caf::actor_system& system, const std::function<void()>& begin);

} // namespace troupe
