#pragma once
// The exceptions that reach the user. Each is one clear line: what was wrong,
// where (file, key, line), and what to do. Main catches them, prints the line
// and returns their exit status. Plain values.

#include <stdexcept>
#include <string>

namespace troupe {

/// Exit statuses of trainer_node. Part of the contract with users.
enum class exit_status : int {
  done = 0,         ///< The run ended normally.
  failed = 1,       ///< Data, a port, a peer or a disk was at fault.
  usage = 2,        ///< The command line or the configuration was wrong.
  try_again = 75,   ///< Stopped by a signal after a checkpoint (EX_TEMPFAIL).
  interrupted = 130 ///< A second SIGINT: ended at once.
};

/// Base of all failures that are shown to the user. `what()` is the line.
class failure : public std::runtime_error {
public:
  failure(exit_status status, const std::string& line)
    : std::runtime_error(line), status_(status) {
    // nop
  }

  exit_status status() const noexcept { return status_; }

private:
  exit_status status_;
};

/// The command line or the configuration is wrong: exit status 2.
class usage_error : public failure {
public:
  explicit usage_error(const std::string& line)
    : failure(exit_status::usage, line) {
    // nop
  }
};

/// Something outside the settings is wrong (data file, port, peer, device,
/// disk): exit status 1.
class run_error : public failure {
public:
  explicit run_error(const std::string& line)
    : failure(exit_status::failed, line) {
    // nop
  }
};

} // namespace troupe
