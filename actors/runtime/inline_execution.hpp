#pragma once
// Inline execution: what a message sets off, done by the thread that sent it.
//
// A thread that has computed a gradient, or read one from a socket, has nothing
// to do until its answer is there. To wake another thread for each actor on the
// way costs more than what these do, and as a rule takes the core of a third
// thread, which computes, while that of the first lies idle. So the thread runs
// the scheduled actors on the way itself: worker, link, parameter server. Who
// is served so is served once; whatever else waits for it is left to the
// scheduler's threads.

#include <caf/actor_system.hpp>
#include <caf/actor_system_config.hpp>

#include <functional>

namespace troupe {

/// Makes systems of this configuration know inline execution. Their scheduler
/// has one queue that so many threads of its own share. In other systems, the
/// virtual clock's among them, `run_inline` but calls `begin`.
void allow_inline_execution(caf::actor_system_config& config, size_t threads);

/// Calls `begin`, then runs the actors that its messages make ready, and those
/// that these make ready, and so on. For threads of detached actors only, which
/// are not ready themselves before they return. Not for what others wait for
/// meanwhile: this returns when nothing is left.
void run_inline(caf::actor_system& system, const std::function<void()>& begin);

} // namespace troupe
