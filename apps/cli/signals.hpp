#pragma once
// Turns signals into a request to stop the run. Owned by main; `end` may be
// called from any thread, everything else only from the main thread.

#include "apps/startup/stop_signals.hpp"
#include "messages/types.hpp"

#include <functional>
#include <mutex>
#include <thread>

namespace troupe::app {

/// The main thread waits here, for signals and for the end of the run. To be
/// constructed before the first other thread, because threads inherit the set
/// of blocked signals.
///
/// The first SIGINT, SIGTERM, SIGUSR1 or SIGHUP asks the run to stop; a second
/// SIGINT of a person ends the process at once, with status 130. While a run
/// starts there is nothing to stop yet: until it has `begun`, or somebody looks
/// (`arrived`, `wait`), a signal ends the process with one line and status 75.
class signal_pump {
public:
  signal_pump();
  ~signal_pump();
  signal_pump(const signal_pump&) = delete;
  signal_pump& operator=(const signal_pump&) = delete;

  /// Reports the end of the run. Thread-safe; only the first call counts.
  void end(const run_end& how);

  /// From now on a signal waits until somebody looks.
  void begun();

  /// Whether a signal to stop the run has arrived. Does not block.
  bool arrived();

  /// Whether `wait` has seen one.
  bool seen() const { return asked_.any(); }

  /// Waits for the end; calls `stop` at the first signal, with its number, and
  /// `now_and_then` every few seconds.
  run_end wait(const std::function<void(int signal)>& stop,
               const std::function<void()>& now_and_then);

private:
  void watch_start() const;
  int take_signal();

  int signals_;
  int ended_;
  int watched_; ///< Ends the watch over the start.
  std::thread watch_;
  std::mutex mutex_;
  stop_requests asked_;
  bool over_ = false;
  run_end how_;
};

} // namespace troupe::app
