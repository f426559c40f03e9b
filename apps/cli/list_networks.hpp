#pragma once

#include <string>

namespace troupe::app {

/// What `--list-networks` shows: a line for each network that there is.
std::string list_networks();

} // namespace troupe::app
