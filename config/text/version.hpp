#pragma once
// Which Troupe this is.

#include <string_view>

namespace troupe::config {

/// "0.1.0"
std::string_view version();

} // namespace troupe::config
