#pragma once
// Runs programs and measures what they cost. One owner; a thread of the child
// samples its memory.

#include "actors/runtime/wall_clock.hpp"
#include "bench/figures.hpp"

#include <sys/types.h>

#include <atomic>
#include <cstdint>
#include <string>
#include <thread>
#include <vector>

namespace troupe::bench {

struct cost {
  spent time;
  double peak_mib = 0; ///< The most resident memory, seen 100 times a second.
  double page_faults = 0; ///< Without reading from a disk.
};

/// A running program; killed if nobody waits for it. Its stdout is discarded.
class child {
public:
  /// Throws `run_error` when it cannot be started.
  explicit child(std::vector<std::string> command);

  ~child();

  child(const child&) = delete;
  child& operator=(const child&) = delete;

  pid_t id() const { return id_; }

  /// Throws `run_error` when it does not end with status 0.
  cost wait();

private:
  std::vector<std::string> command_;
  wall_clock clock_;
  pid_t id_ = 0;
  std::atomic<double> peak_mib_ = 0;
  std::jthread memory_thread_; ///< Samples its memory.
};

/// Runs a command to its end.
cost run_child(const std::vector<std::string>& command);

} // namespace troupe::bench
