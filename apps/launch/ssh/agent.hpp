#pragma once
// `trainer_node launch-agent`, which a launch starts on each of its hosts: it
// starts processes there, passes on what they print, and ends all of them when
// its standard input ends. Not for users. Called by main, which has no other
// thread then.

#include "config/text/failure.hpp"

#include <string>
#include <vector>

namespace troupe::app {

/// @param arguments The folder that has the program and its libraries.
exit_status run_launch_agent(const std::vector<std::string>& arguments);

} // namespace troupe::app
