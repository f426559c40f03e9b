#pragma once
// `trainer_node compare`: the same training under several policies and seeds,
// under the virtual clock, and a report.

#include "config/text/failure.hpp"

#include <functional>
#include <string>
#include <vector>

namespace troupe::app {

/// Runs the comparison that the arguments after `compare` ask for. Throws
/// `failure`. `interrupted` as in `virtual_run_options`.
exit_status compare(const std::vector<std::string>& arguments,
                    const std::function<bool()>& interrupted);

} // namespace troupe::app
