#pragma once
// Turns an exception into one line for the user. Pure functions; any thread.

#include <exception>
#include <string>
#include <string_view>

namespace troupe {

/// Whether a library's text tells of an error inside a TorchScript program.
bool is_of_script(std::string_view text);

/// The line of a library's text that says what is wrong: the first one that is
/// not blank, since libraries append the place in their own code. The
/// interpreter of TorchScript says the cause last, after the source.
std::string cause_in(std::string_view text);

/// The text of a `failure`; of other exceptions the cause only.
std::string one_line(const std::exception& err);

/// The same for an exception whose type is unknown. @pre Not null.
std::string one_line(const std::exception_ptr& err);

} // namespace troupe
