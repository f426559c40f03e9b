#pragma once
// The one clock that is not the actor system's: for what a person waits for.
// Nothing that a run decides may depend on it.

#include <chrono>

namespace troupe {

/// Wall seconds since it was made.
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
