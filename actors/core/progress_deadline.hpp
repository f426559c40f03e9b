#pragma once
// A deadline for work whose duration nobody knows: only progress of the work
// that is waited for (its bytes, its samples) extends the deadline, and no
// other message does.
//
// A value without a clock: times are arguments, in seconds of any one clock.
// Not thread-safe.

#include <cstdint>

namespace troupe::cores {

class progress_deadline {
public:
  /// @param patience Seconds without progress until it is over.
  progress_deadline(double patience, double now)
    : patience_(patience), end_(now + patience) {
    // nop
  }

  /// There was progress, or the waiting begins anew.
  void progress(double now) { end_ = now + patience_; }

  /// The work has come to `point`, which is progress if it is another point
  /// than before. Returns whether it is.
  bool reached(uint64_t point, double now) {
    if (point == point_)
      return false;
    point_ = point;
    progress(now);
    return true;
  }

  bool over(double now) const { return now >= end_; }

  /// Seconds until it is over, if nothing happens.
  double left(double now) const { return end_ - now; }

private:
  double patience_;
  double end_;
  uint64_t point_ = 0;
};

} // namespace troupe::cores
