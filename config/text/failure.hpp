#pragma once
// Failures that reach the user. Every one is a single clear line: what was
// wrong, where (file, key, line), what to do.

#include <stdexcept>
#include <string>

namespace troupe {

/// Exit statuses of trainer_node. Part of the contract with users.
enum class exit_status : int {
  done = 0,         ///< The run ended as it should.
  failed = 1,       ///< What the run met was wrong: data, ports, peers, disk.
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

/// Something that the run met is wrong (data file, port, peer, device, disk):
/// exit status 1.
class run_error : public failure {
public:
  explicit run_error(const std::string& line)
    : failure(exit_status::failed, line) {
    // nop
  }
};

} // namespace troupe
