#pragma once
// The text of `--list-networks`. A pure function, called by main.

#include <string>

namespace troupe::app {

/// What `--list-networks` shows: one line for each known network.
std::string list_networks();

} // namespace troupe::app
