#pragma once
// The cores that a program of the benchmark runs on.

#include <string>
#include <vector>

namespace troupe::bench {

/// The numbers of the cores that this process may use.
std::vector<int> allowed_cores();

/// A command on one core.
std::vector<std::string> on_core(int core,
                                 const std::vector<std::string>& command);

} // namespace troupe::bench
