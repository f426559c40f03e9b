#pragma once
// Turns an exception into one line for the user. Pure functions; any thread.

#include <exception>
#include <string>

namespace troupe {

/// The text of a `failure`; of other exceptions the first line only, since
/// libraries append the place in their own code.
std::string one_line(const std::exception& err);

/// The same for an exception whose type is unknown. @pre Not null.
std::string one_line(const std::exception_ptr& err);

} // namespace troupe
