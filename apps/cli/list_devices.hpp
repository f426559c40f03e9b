#pragma once
// `trainer_node devices`: what this process could compute on. Called by main.

#include "config/text/failure.hpp"

#include <string>
#include <vector>

namespace troupe::app {

/// Prints a line for the CPU and one for each GPU; without a GPU that can be
/// used, the reason. Throws `usage_error`.
exit_status list_devices(const std::vector<std::string>& arguments);

} // namespace troupe::app
