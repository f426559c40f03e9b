#pragma once
// Starts a program as a process of a group of its own, which dies with this
// process. For one thread, which must not end before the process does.

#include "config/text/descriptor.hpp"

#include <sys/types.h>

#include <map>
#include <string>
#include <vector>

namespace troupe::app {

/// The two ends of a pipe, or of a terminal.
struct channel {
  config::descriptor ours;
  config::descriptor theirs;
};

/// A pipe that they write to and we read. Its ends are negative where there
/// can be none.
channel make_pipe();

struct program_start {
  std::string name;                                 ///< For errors.
  std::vector<std::string> command;                 ///< Program and arguments.
  std::map<std::string, std::string> environment{}; ///< Added to ours.
  int input = -1; ///< It reads this file; negative: nothing.
  int output = -1;
  int errors = -1;
};

/// Returns the id of the process, which is that of its group, too. Where the
/// program cannot be started the process says so and ends with 127. Throws
/// `run_error`.
pid_t start_program(program_start start);

/// The exit status that `waitpid` has told, or 128 + the number of a signal.
int exit_status_of(int status);

} // namespace troupe::app
