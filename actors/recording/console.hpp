#pragma once
// What a process says on stdout and stderr. Nobody waits for the terminal, pipe
// or file behind them: a thread of each console writes, and what it cannot take
// in time is left out, and counted. Thread-safe.

#include <memory>
#include <string>
#include <string_view>

namespace troupe::recording {

class console {
public:
  /// Of this process. They live as long as it does.
  static console& standard_output();
  static console& standard_error();

  /// Writes to an open file, which must live as long as the process.
  explicit console(int file);

  console(const console&) = delete;
  console& operator=(const console&) = delete;

  /// A line, which is kept while there is room for it.
  void say(std::string_view line);

  /// Text as it is, the same.
  void write(std::string_view text);

  /// Text that is soon stale: left out while something else waits.
  void show(std::string_view text);

  /// Waits until all is written; false when nothing was for so many s.
  bool flush(double patience = 1);

private:
  struct state;

  std::shared_ptr<state> state_;
};

/// A line on stdout.
inline void say(std::string_view line) {
  console::standard_output().say(line);
}

} // namespace troupe::recording
