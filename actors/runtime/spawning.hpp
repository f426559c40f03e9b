#pragma once
// The one place that spawns actors, and that hides the differences between
// releases of CAF. Thread-safe, as spawning is in CAF.

#include "actors/runtime/virtual_time.hpp"

#include <caf/actor_config.hpp>
#include <caf/actor_system.hpp>
#include <caf/scheduled_actor.hpp>
#include <caf/spawn_options.hpp>

#include <utility>

namespace troupe {

/// Where an actor runs. Actors that compute, load or write files are detached
/// (each has a thread of its own); all others share the scheduler's threads. In
/// virtual time all actors run on the thread that drives the clock.
enum class placement { scheduled, detached };

/// An actor that answers a message which is not of its interface with an error.
/// CAF's own would print it, and other nodes could fill the log.
template <class Impl>
class unprinting : public Impl {
public:
  template <class... Args>
  explicit unprinting(caf::actor_config& config, Args&&... args)
    : Impl(config, std::forward<Args>(args)...) {
    this->set_default_handler(caf::drop);
  }
};

/// Spawns an actor with interface `Handle` from its state class, whose
/// constructor takes the typed self pointer and then `args`.
template <class Handle, class State, class... Args>
Handle spawn(caf::actor_system& system, placement where, Args&&... args) {
  using impl = unprinting<typename Handle::template stateful_impl<State>>;
  if (where == placement::detached && !virtual_time::rules(system))
    return system.spawn<impl, caf::detached>(std::forward<Args>(args)...);
  return system.spawn<impl>(std::forward<Args>(args)...);
}

} // namespace troupe
