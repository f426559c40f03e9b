#pragma once
// `trainer_node compare`: runs the same training under several policies and
// seeds, under the virtual clock, and writes a report. Called once, on the main
// thread.

#include "config/text/failure.hpp"

#include <functional>
#include <string>
#include <vector>

namespace troupe::app {

/// Runs the command with the arguments after `compare`. Throws `failure`.
/// @param interrupted As in `virtual_run_options`.
exit_status compare(const std::vector<std::string>& arguments,
                    const std::function<bool()>& interrupted);

} // namespace troupe::app
