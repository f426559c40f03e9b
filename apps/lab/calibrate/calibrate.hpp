#pragma once
// `trainer_node calibrate`: fits the durations of the virtual clock to the
// event logs of real runs. Called once, on the main thread.

#include "config/text/failure.hpp"

#include <string>
#include <vector>

namespace troupe::app {

/// Runs the command with the arguments after `calibrate`. Throws `failure`.
exit_status calibrate(const std::vector<std::string>& arguments);

} // namespace troupe::app
