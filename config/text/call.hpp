#pragma once
// Splits values that are written like a call, `name(key=value,...)`, into their
// parts, without knowing which names there are. Used by call_schema.hpp. Pure
// functions; any thread.

#include <string>
#include <string_view>
#include <vector>

namespace troupe::config {

/// A call as it is written. Its parts refer to the text that was parsed.
struct call {
  struct argument {
    std::string_view name; ///< Empty for a bare value.
    std::string_view value;
  };

  std::string_view name;
  std::vector<argument> arguments; ///< For `f()`: one, empty.

  bool empty() const {
    return arguments.size() == 1 && arguments.front().name.empty() &&
           arguments.front().value.empty();
  }
};

/// Splits a text at each `at` that is not inside parentheses. Throws
/// `bad_value` if the parentheses do not match.
std::vector<std::string_view> split_outside(std::string_view text, char at);

/// The name before the first parenthesis, without blanks around it.
std::string_view name_of_call(std::string_view text);

/// Splits a call into its parts. Values may be calls themselves. Throws
/// `bad_value`.
call parse_call(std::string_view text);

} // namespace troupe::config
