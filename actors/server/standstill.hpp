#pragma once
// Tells when a run has made no step for so long that its user wants to know for
// whom it waits: after `first` seconds, or twice the longest step of the run if
// that is more, and then each time that it has lasted twice as long.
//
// Pure: reads no clock. Owned by the parameter server; not thread-safe.

#include <algorithm>
#include <optional>

namespace troupe {

class standstill {
public:
  /// @param first s; 0: it is never due.
  explicit standstill(double first) : first_(first), due_(first) {}

  /// A step was made. @param now s since the watch began.
  void step(double now) {
    longest_ = std::max(longest_, now - last_);
    last_ = now;
    due_ = std::max(first_, 2 * longest_);
  }

  /// For how many seconds there was no step, if that is to be said now.
  std::optional<double> due(double now) {
    auto lasted = now - last_;
    if (first_ <= 0 || lasted < due_)
      return std::nullopt;
    due_ = 2 * lasted;
    return lasted;
  }

private:
  double first_;
  double due_;
  double last_ = 0;    ///< When the last step was made.
  double longest_ = 0; ///< s
};

} // namespace troupe
