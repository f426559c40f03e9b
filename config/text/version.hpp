#pragma once
// The version of this release of Troupe, set by the build.

#include <string_view>

namespace troupe::config {

/// "0.1.0"
std::string_view version();

} // namespace troupe::config
