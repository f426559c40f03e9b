#pragma once
// What an exception says, for a user who gets one line.

#include <exception>
#include <string>

namespace troupe {

/// The line of a failure of ours; of others the first line, since libraries add
/// where in their own code it happened.
std::string one_line(const std::exception& err);

/// The same of one that was caught without a look at it. @pre Not null.
std::string one_line(const std::exception_ptr& err);

} // namespace troupe
