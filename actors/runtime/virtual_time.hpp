#pragma once
// The virtual clock: an actor system whose actors all run on the thread that
// drives it, one message at a time and in a fixed order. Time passes only
// through `jump` and `advance`. The only place that knows CAF's test scheduler.
//
// Owned by the thread that drives the run. Not thread-safe: no other thread may
// touch such a system.

#include <caf/actor_system.hpp>
#include <caf/actor_system_config.hpp>
#include <caf/timespan.hpp>

#include <cstddef>

namespace caf::scheduler {
class test_coordinator;
} // namespace caf::scheduler

namespace troupe {

class virtual_time {
public:
  /// Gives systems that are made from `config` a virtual clock.
  static void choose(caf::actor_system_config& config);

  /// Whether the actors of this system run in virtual time.
  static bool rules(const caf::actor_system& system);

  /// @pre rules(system)
  explicit virtual_time(caf::actor_system& system);

  /// Handles messages, at most `at_most`, without letting time pass. Returns
  /// the number of messages handled.
  size_t run_until_idle(size_t at_most = SIZE_MAX);

  /// Lets time pass until the next timers are due, and fires those in the order
  /// in which they were set. False when no timer is set.
  bool jump();

  /// Lets this much time pass at once, and fires the timers that are due in it.
  void advance(caf::timespan time);

private:
  caf::scheduler::test_coordinator& jobs_;
};

} // namespace troupe
