#pragma once
// Values that are written like a call, `name(key=value,...)`: distributions and
// faults.

#include <string>
#include <string_view>
#include <vector>

namespace troupe::config {

/// A call as it is written. The parts refer to the text that was read.
struct call {
  struct argument {
    std::string_view name; ///< Empty for a bare value.
    std::string_view value;
  };

  std::string_view name;
  std::vector<argument> arguments; ///< One without name and value for `f()`.

  bool empty() const {
    return arguments.size() == 1 && arguments.front().name.empty() &&
           arguments.front().value.empty();
  }
};

/// Cuts a text at each `at` that stands in no parentheses. Throws `bad_value`
/// where these do not match.
std::vector<std::string_view> split_outside(std::string_view text, char at);

/// The name before the first parenthesis, without blanks around it.
std::string_view name_of_call(std::string_view text);

/// Cuts a call into its parts. Values may be calls themselves. Throws
/// `bad_value`.
call parse_call(std::string_view text);

} // namespace troupe::config
