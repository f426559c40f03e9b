#pragma once
// Settings that are rules: patterns, and what holds for the names that match
// one of them: "conv* = ps:0, fc1 fc2 = ps:1". `[placement]` and
// `[param-groups]` share this form. Pure functions; any thread.

#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace troupe::config {

/// The words of a text, without the blanks between them.
std::vector<std::string> words_of(std::string_view text);

/// The rules of a text: the patterns with one blank between them, and what is
/// behind the first `=`, trimmed.
/// @param form Says how a rule is written, as in "PATTERN = worker".
/// @throws bad_value for a text that is no rule, for patterns that are there
/// twice, and for a comma at the end.
std::vector<std::pair<std::string, std::string>>
parse_pattern_rules(std::string_view text, std::string_view form);

} // namespace troupe::config
