#pragma once
// A deadline for something that takes as long as it takes, as long as it goes
// on: only progress of the thing that is waited for (its bytes, its samples)
// extends it, and no other message does.
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

  /// There was some, or the waiting begins anew.
  void progress(double now) { end_ = now + patience_; }

  /// The thing has come so far: progress if that is not where it was.
  /// Returns whether it is.
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
