#pragma once
// `trainer_node launch`: a whole cluster with one command, on this machine or
// over ssh on others. Called by main, which has no other thread then.

#include "config/text/failure.hpp"

#include <string>
#include <vector>

namespace troupe::app {

/// Runs the command with the arguments after `launch`. Throws `failure`.
exit_status launch(const std::vector<std::string>& arguments);

} // namespace troupe::app
