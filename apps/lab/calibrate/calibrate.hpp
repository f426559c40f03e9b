#pragma once
// `trainer_node calibrate`: from the event logs of real runs to the times of
// the virtual clock.

#include "config/text/failure.hpp"

#include <string>
#include <vector>

namespace troupe::app {

/// Does what the arguments after `calibrate` ask for. Throws `failure`.
exit_status calibrate(const std::vector<std::string>& arguments);

} // namespace troupe::app
