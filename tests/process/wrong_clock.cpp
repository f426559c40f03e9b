// Loaded before the C library (LD_PRELOAD): the date of the program is off by
// WRONG_CLOCK seconds.

#include <cstdlib>
#include <ctime>

extern "C" std::time_t time(std::time_t* out) noexcept {
  timespec now{};
  clock_gettime(CLOCK_REALTIME, &now);
  const auto* by = std::getenv("WRONG_CLOCK");
  auto result = now.tv_sec + (by != nullptr ? std::atol(by) : 0);
  if (out != nullptr)
    *out = result;
  return result;
}
