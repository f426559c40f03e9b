#pragma once
// How long a computation takes, where this decides how a run is set up. Any
// thread.

#include <chrono>

namespace troupe::models {

/// Seconds that `f` takes.
template <class F>
double seconds_of(F&& f) {
  auto begin = std::chrono::steady_clock::now();
  f();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin)
    .count();
}

} // namespace troupe::models
