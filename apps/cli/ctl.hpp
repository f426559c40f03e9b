#pragma once
// `trainer_node ctl policy POLICY --host H --port P`: an operator changes a run
// while it goes on. It asks the parameter server, at the port where workers
// come in, and is known by what they are known by. Called by main.

#include "config/text/failure.hpp"

#include <string>
#include <vector>

namespace troupe::app {

/// @param arguments What was typed after `ctl`. Prints what the run does from
/// now on. Throws `usage_error` also if the run cannot do that, and `run_error`
/// if it does not answer, or not now.
exit_status ctl_verb(const std::vector<std::string>& arguments);

} // namespace troupe::app
