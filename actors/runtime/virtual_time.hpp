#pragma once
// The virtual clock: an actor system whose actors all run on the thread that
// drives it, one message at a time and in a fixed order, and in which time
// stands still but for `jump` and `advance`. The only place that knows CAF's
// test scheduler.
//
// Not thread-safe: nothing but the driving thread may touch such a system.

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
  /// Puts the systems that are made from `config` under the virtual clock.
  static void choose(caf::actor_system_config& config);

  /// Whether the actors of this system run in virtual time.
  static bool rules(const caf::actor_system& system);

  /// @pre rules(system)
  explicit virtual_time(caf::actor_system& system);

  /// Handles messages, at most so many, without letting time pass. Returns how
  /// many there were.
  size_t settle(size_t at_most = SIZE_MAX);

  /// Lets time pass until the next timers are due, and fires those in the order
  /// in which they were set. False when there is none.
  bool jump();

  /// Lets this much time pass at once, and fires what is due in it.
  void advance(caf::timespan time);

private:
  caf::scheduler::test_coordinator& jobs_;
};

} // namespace troupe
