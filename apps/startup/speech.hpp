#pragma once
// Where a program that starts says what it does.

#include <functional>
#include <string>

namespace troupe::app {

/// Prints a line for the user.
using speech = std::function<void(const std::string& line)>;

} // namespace troupe::app
