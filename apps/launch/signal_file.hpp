#pragma once
// The signals that end a launch, and those of children that have ended, as a
// file that poll() waits for. For one thread: it blocks these signals there.

#include "apps/startup/stop_signals.hpp"
#include "config/text/descriptor.hpp"

#include <vector>

namespace troupe::app {

class signal_file {
public:
  signal_file();

  /// Can be read when a signal has come.
  int file() const { return file_.get(); }

  /// Those that asked this process to stop since the last call.
  std::vector<stop_requests::meaning> taken();

private:
  config::descriptor file_;
  stop_requests asked_;
};

} // namespace troupe::app
