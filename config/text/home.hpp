#pragma once
// Expands `~` in paths as a shell does. No shell has done so where a setting
// comes from a file, a variable or stands behind the = of a flag. Not
// thread-safe for `~USER`, since it asks the password database.

#include <string>
#include <string_view>

namespace troupe::config {

/// The path with a leading `~` or `~USER` replaced by the home folder of this
/// user (HOME, or the password database if that is not set) or of that one.
/// Other paths stay: a file in the working folder whose name begins with ~ is
/// `./~name`. Throws `bad_value` if there is no such user.
std::string expand_home(std::string_view path);

} // namespace troupe::config
