#pragma once
// The output of a process on stdout and stderr. The caller never waits for the
// terminal, pipe or file: each console writes on a thread of its own. Lines
// that it cannot write in time are dropped and counted.
//
// One object for each stream, alive as long as the process. Thread-safe.

#include <memory>
#include <string>
#include <string_view>

namespace troupe::recording {

class console {
public:
  /// The consoles of this process. They live as long as it does.
  static console& standard_output();
  static console& standard_error();

  /// Writes to an open file, which must live as long as the process.
  explicit console(int file);

  console(const console&) = delete;
  console& operator=(const console&) = delete;

  /// Writes a line, as `log_lines` makes it; it is queued if there is room.
  void say(std::string_view line);

  /// The same for text as it is.
  void write(std::string_view text);

  /// Writes text that is soon out of date: dropped if something else waits.
  void show(std::string_view text);

  /// Waits until everything is written; false when nothing could be written for
  /// `patience` seconds.
  bool flush(double patience = 1);

private:
  struct state;

  std::shared_ptr<state> state_;
};

/// Writes a line to stdout.
inline void say(std::string_view line) {
  console::standard_output().say(line);
}

} // namespace troupe::recording
