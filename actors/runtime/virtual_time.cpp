#include "actors/runtime/virtual_time.hpp"

#include <caf/scheduler/test_coordinator.hpp>
#include <caf/settings.hpp>

#include <algorithm>

namespace troupe {

void virtual_time::choose(caf::actor_system_config& config) {
  config.set("caf.scheduler.policy", "testing");
}

bool virtual_time::rules(const caf::actor_system& system) {
  return caf::get_or(system.config(), "caf.scheduler.policy", "") == "testing";
}

virtual_time::virtual_time(caf::actor_system& system)
  : jobs_(dynamic_cast<caf::scheduler::test_coordinator&>(system.scheduler())) {
  // nop
}

size_t virtual_time::run_until_idle(size_t at_most) {
  return jobs_.run(at_most);
}

// A cancelled timer must not move the clock.
bool virtual_time::jump() {
  auto& timers = jobs_.clock().schedule;
  while (!timers.empty() && timers.begin()->second.f.disposed())
    timers.erase(timers.begin());
  if (timers.empty())
    return false;
  auto now = jobs_.clock().now();
  advance(std::max(timers.begin()->first, now) - now);
  return true;
}

void virtual_time::advance(caf::timespan time) {
  jobs_.advance_time(time);
}

} // namespace troupe
