#pragma once
// How often something may be done. A value, used by one thread.

#include <algorithm>
#include <chrono>

namespace troupe::control {

/// So many times a second in the long run, and so many at once.
class rate_limit {
public:
  using clock = std::chrono::steady_clock;

  rate_limit(double per_second, double at_once)
    : per_second_(per_second), at_once_(at_once), left_(at_once) {
    // nop
  }

  /// Counts one. False: it is one too many.
  bool allows(clock::time_point now) {
    std::chrono::duration<double> since = now - seen_;
    seen_ = now;
    left_ = std::min(left_ + per_second_ * since.count(), at_once_);
    if (left_ < 1)
      return false;
    left_ -= 1;
    return true;
  }

private:
  double per_second_;
  double at_once_;
  double left_;
  clock::time_point seen_{};
};

} // namespace troupe::control
