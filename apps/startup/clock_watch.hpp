#pragma once
// Notices that this machine's date was changed while the program runs. No
// decision of a run depends on the date, so the run goes on. For one thread.

#include <chrono>
#include <optional>
#include <string>

namespace troupe::app {

class clock_watch {
public:
  using seconds = std::chrono::duration<double>;

  /// What the clocks show at one moment.
  struct reading {
    seconds date;   ///< Since 1970; somebody may set it.
    seconds passed; ///< Since some moment, time of sleep included.
  };

  explicit clock_watch(reading first = read_clocks());

  /// Returns a line about the date if it has moved by a minute or more against
  /// the time that has passed since the last call.
  std::optional<std::string> look(reading now = read_clocks());

  static reading read_clocks();

private:
  reading last_;
};

} // namespace troupe::app
