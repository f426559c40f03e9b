// Loaded before the C library (LD_PRELOAD): the date of the program is off by
// WRONG_CLOCK seconds, once it has run for WRONG_CLOCK_AFTER seconds.

#include <sys/syscall.h>
#include <unistd.h>

#include <cstdlib>
#include <ctime>

namespace {

timespec read_clock(clockid_t which) {
  timespec now{};
  syscall(SYS_clock_gettime, which, &now);
  return now;
}

const std::time_t begun = read_clock(CLOCK_MONOTONIC).tv_sec;

std::time_t number_in(const char* variable) {
  const auto* text = std::getenv(variable);
  return text != nullptr ? std::atol(text) : 0;
}

std::time_t error_now() {
  auto age = read_clock(CLOCK_MONOTONIC).tv_sec - begun;
  return age < number_in("WRONG_CLOCK_AFTER") ? 0 : number_in("WRONG_CLOCK");
}

} // namespace

extern "C" int clock_gettime(clockid_t which, timespec* out) noexcept {
  *out = read_clock(which);
  if (which == CLOCK_REALTIME)
    out->tv_sec += error_now();
  return 0;
}

extern "C" std::time_t time(std::time_t* out) noexcept {
  auto result = read_clock(CLOCK_REALTIME).tv_sec + error_now();
  if (out != nullptr)
    *out = result;
  return result;
}
