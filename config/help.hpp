#pragma once
// The text of `--help`.

#include <string>

namespace troupe::config {

/// All flags, by section, with meaning, unit and default; 80 columns wide.
std::string help();

} // namespace troupe::config
