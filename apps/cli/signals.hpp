#pragma once

#include "messages/types.hpp"

#include <functional>
#include <mutex>

namespace troupe::app {

/// Where the main thread waits: for signals and for the end of the run. To be
/// made before the first thread, since threads inherit the blocked signals.
///
/// The first SIGINT, SIGTERM or SIGUSR1 asks the run to stop; a second SIGINT
/// ends the process at once, with status 130.
class signal_pump {
public:
  signal_pump();
  ~signal_pump();
  signal_pump(const signal_pump&) = delete;
  signal_pump& operator=(const signal_pump&) = delete;

  /// The run is over. Callable from any thread; only the first call counts.
  void end(const run_end& how);

  /// Whether a signal has arrived that asks the run to stop. Does not wait.
  bool arrived();

  /// Waits for the end; calls `stop` at the first signal.
  run_end wait(const std::function<void()>& stop);

private:
  int signals_;
  int ended_;
  std::mutex mutex_;
  bool asked_ = false; ///< The first signal has come.
  bool over_ = false;
  run_end how_;
};

} // namespace troupe::app
