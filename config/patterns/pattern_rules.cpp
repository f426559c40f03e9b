#include "config/patterns/pattern_rules.hpp"

#include "config/text/text.hpp"
#include "config/text/value.hpp"

#include <algorithm>
#include <iterator>
#include <sstream>

namespace troupe::config {

std::vector<std::string> words_of(std::string_view text) {
  std::istringstream in{std::string{text}};
  return {std::istream_iterator<std::string>{in}, {}};
}

std::vector<std::pair<std::string, std::string>>
parse_pattern_rules(std::string_view text, std::string_view form) {
  std::vector<std::pair<std::string, std::string>> out;
  text = trim(text);
  while (!text.empty()) {
    auto comma = std::min(text.find(','), text.size());
    auto rule = text.substr(0, comma);
    auto equals = rule.find('=');
    auto pattern = join(words_of(rule.substr(0, equals)), " ");
    if (equals == std::string_view::npos || pattern.empty())
      throw bad_value(in_quotes(std::string{trim(rule)}) + " must be " +
                      std::string{form});
    for (const auto& [known, value] : out)
      if (known == pattern)
        throw bad_value("has " + in_quotes(pattern) + " twice");
    out.emplace_back(pattern, trim(rule.substr(equals + 1)));
    if (comma + 1 == text.size())
      throw bad_value("ends with a comma");
    text = trim(text.substr(std::min(comma + 1, text.size())));
  }
  return out;
}

} // namespace troupe::config
