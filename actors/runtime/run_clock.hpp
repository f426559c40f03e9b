#pragma once
// The time of a run. All time comes from the clock of the actor system, so that
// the same actors run in real and in virtual time.
//
// A value; a member of an actor's state. Reading it is thread-safe.

#include <caf/actor_clock.hpp>
#include <caf/timespan.hpp>

#include <chrono>

namespace troupe {

/// Converts seconds to the unit of CAF's clocks.
inline caf::timespan to_timespan(double seconds) {
  return std::chrono::duration_cast<caf::timespan>(
    std::chrono::duration<double>(seconds));
}

/// Seconds since a run, or a part of it, began.
class run_clock {
public:
  /// Starts now.
  /// @param before Seconds that count already: those of the checkpoint that the
  /// run continues from.
  template <class Self>
  explicit run_clock(Self* self, double before = 0)
    : start_(self->clock().now()), before_(before) {
    // nop
  }

  template <class Self>
  double elapsed(Self* self) const {
    std::chrono::duration<double> since = self->clock().now() - start_;
    return before_ + since.count();
  }

private:
  caf::actor_clock::time_point start_;
  double before_;
};

} // namespace troupe
