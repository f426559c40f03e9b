#pragma once
// A program run to its end, and what it cost.

#include "bench/figures.hpp"

#include <string>
#include <vector>

namespace troupe::bench {

struct cost {
  spent time;
  double peak_mib = 0; ///< The most memory that it had resident.
};

/// Runs a command; its stdout goes nowhere. Throws `run_error` when it cannot
/// be started or does not end with status 0.
cost run_child(const std::vector<std::string>& command);

} // namespace troupe::bench
