#pragma once
// The signals by which a process is asked to stop.

#include <sys/types.h>

#include <chrono>
#include <csignal>
#include <cstdint>
#include <optional>

namespace troupe::app {

/// SIGINT, SIGTERM, SIGUSR1 and SIGHUP. A SIGHUP that was ignored when the
/// process started stays ignored, which nohup relies on.
sigset_t stop_signals();

/// Tells a person's haste from a signal that comes several times: a closed
/// terminal sends SIGHUP to everybody who may be concerned, and a supervisor
/// may send one signal to a process and to its group. Pure.
class stop_requests {
public:
  using time_point = std::chrono::steady_clock::time_point;

  enum class meaning : uint8_t { stop = 1, nothing, haste };

  /// What the signal means. Only SIGINT and SIGTERM can be haste, and only some
  /// time after the first signal of all.
  meaning interpret_signal(int signal, time_point now);

  bool any() const { return first_.has_value(); }

private:
  std::optional<time_point> first_;
};

} // namespace troupe::app
