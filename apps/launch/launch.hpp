#pragma once
// `trainer_node launch`: a whole cluster of local processes with one command.
// Starts them, prefixes what they print, starts those again that die, passes
// signals on, and ends with the run's status. Called by main, which has no
// other thread then.

#include "config/text/failure.hpp"

#include <string>
#include <vector>

namespace troupe::app {

/// Runs the command with the arguments after `launch`. Throws `failure`.
exit_status launch(const std::vector<std::string>& arguments);

} // namespace troupe::app
