#pragma once
// The text of `--list-datasets`. A pure function, called by main.

#include <string>

namespace troupe::app {

/// What `--list-datasets` shows: one line for each known data set.
std::string list_datasets();

} // namespace troupe::app
