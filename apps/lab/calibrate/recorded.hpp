#pragma once
// Reads the durations in the event logs of a run. A free function; thread-safe.

#include <cstdint>
#include <filesystem>
#include <map>
#include <vector>

namespace troupe::app {

struct recorded_times {
  /// Seconds of each gradient that arrived, by rank of the worker.
  std::map<uint32_t, std::vector<double>> compute;
  /// Seconds that a gradient and the weights of its answer spent on the
  /// network: the worker's wait minus the time that the server held the answer.
  std::vector<double> travel;
  uint64_t cancelled = 0; ///< Computations of unknown duration.

  uint64_t gradients() const {
    uint64_t out = 0;
    for (const auto& [worker, times] : compute)
      out += times.size();
    return out;
  }
};

/// Reads all of the event logs; workers of the same rank count as one. Throws
/// `run_error`.
recorded_times read_times(const std::vector<std::filesystem::path>& event_logs);

} // namespace troupe::app
