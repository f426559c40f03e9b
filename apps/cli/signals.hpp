#pragma once
// Turns signals into a request to stop the run. Owned by main; `end` may be
// called from any thread, everything else only from the main thread.

#include "apps/startup/stop_signals.hpp"
#include "messages/types.hpp"

#include <functional>
#include <mutex>

namespace troupe::app {

/// The main thread waits here, for signals and for the end of the run. To be
/// constructed before the first other thread, because threads inherit the set
/// of blocked signals.
///
/// The first SIGINT, SIGTERM, SIGUSR1 or SIGHUP asks the run to stop; a second
/// SIGINT of a person ends the process at once, with status 130.
class signal_pump {
public:
  signal_pump();
  ~signal_pump();
  signal_pump(const signal_pump&) = delete;
  signal_pump& operator=(const signal_pump&) = delete;

  /// Reports the end of the run. Thread-safe; only the first call counts.
  void end(const run_end& how);

  /// Whether a signal to stop the run has arrived. Does not block.
  bool arrived();

  /// Whether `wait` has seen one.
  bool seen() const { return asked_.any(); }

  /// Waits for the end; calls `stop` at the first signal, and `now_and_then`
  /// every few seconds.
  run_end wait(const std::function<void()>& stop,
               const std::function<void()>& now_and_then);

private:
  bool take_signal();

  int signals_;
  int ended_;
  std::mutex mutex_;
  stop_requests asked_;
  bool over_ = false;
  run_end how_;
};

} // namespace troupe::app
