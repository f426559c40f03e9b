#include "apps/startup/clock_watch.hpp"

#include <cmath>
#include <ctime>

namespace troupe::app {

namespace {

constexpr clock_watch::seconds smallest_jump{60};

clock_watch::seconds read_clock(clockid_t which) {
  timespec now{};
  clock_gettime(which, &now);
  return std::chrono::seconds{now.tv_sec} +
         std::chrono::nanoseconds{now.tv_nsec};
}

/// "3600 s ahead"
std::string size_of_jump(clock_watch::seconds by) {
  return std::to_string(std::llround(std::abs(by.count()))) + " s " +
         (by.count() > 0 ? "ahead" : "back");
}

} // namespace

clock_watch::clock_watch(reading first) : last_(first) {
  // nop
}

clock_watch::reading clock_watch::read_clocks() {
  return {read_clock(CLOCK_REALTIME), read_clock(CLOCK_BOOTTIME)};
}

std::optional<std::string> clock_watch::look(reading now) {
  auto by = (now.date - last_.date) - (now.passed - last_.passed);
  last_ = now;
  if (by < smallest_jump && by > -smallest_jump)
    return std::nullopt;
  return "clock        this machine's date has jumped " + size_of_jump(by) +
         ": times in logs jump with it, the run does not; see to its time "
         "service, since certificates are valid by date";
}

} // namespace troupe::app
