#pragma once

#include <string>

namespace troupe::app {

/// What `--list-datasets` shows: a line for each data set that there is.
std::string list_datasets();

} // namespace troupe::app
