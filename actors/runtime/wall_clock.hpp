#pragma once
// The one clock that does not come from the actor system: for what a person
// waits for, such as progress output. No decision of a run may depend on it. A
// value; not thread-safe.

#include <chrono>

namespace troupe {

/// Seconds of real time since its construction.
class wall_clock {
public:
  double elapsed() const {
    std::chrono::duration<double> since =
      std::chrono::steady_clock::now() - start_;
    return since.count();
  }

private:
  std::chrono::steady_clock::time_point start_ =
    std::chrono::steady_clock::now();
};

} // namespace troupe
