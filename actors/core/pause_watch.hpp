#pragma once
// Notices that this process stood still (a stopped job, a suspended machine):
// its own timer comes late. Then the silence of others is no sign that they are
// dead, since their messages of that time have not been read, and all may have
// been suspended together.
//
// A value without a clock: times are arguments, in seconds of any one clock.
// Not thread-safe.

namespace troupe::cores {

class pause_watch {
public:
  /// @param interval Seconds between two ticks of the timer.
  explicit pause_watch(double interval, double now = 0)
    : interval_(interval), due_(now + interval) {
    // nop
  }

  /// To be called at each tick. Returns for how many seconds the process stood
  /// still; 0 if the timer was on time, as far as a busy machine can be.
  double tick(double now) {
    constexpr double tolerance = 0.25; // Of the interval.
    auto late = overdue(now);
    due_ = now + interval_;
    return late > tolerance * interval_ ? late : 0;
  }

  /// Seconds since the timer was due; negative: it is not due yet.
  double overdue(double now) const { return now - due_; }

  double interval() const { return interval_; }

private:
  double interval_;
  double due_;
};

} // namespace troupe::cores
