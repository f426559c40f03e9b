#include "config/text/call.hpp"

#include "config/text/text.hpp"
#include "config/text/value.hpp"

#include <cmath>

namespace troupe::config {

namespace {

call::argument cut(std::string_view text) {
  auto equals = text.find('=');
  // If a bare value is a call, the sign belongs to that call.
  if (equals == std::string_view::npos || text.find('(') < equals)
    return {{}, trim(text)};
  return {trim(text.substr(0, equals)), trim(text.substr(equals + 1))};
}

} // namespace

std::vector<std::string_view> split_outside(std::string_view text, char at) {
  std::vector<std::string_view> result;
  int depth = 0;
  size_t begin = 0;
  for (size_t i = 0; i < text.size(); ++i) {
    depth += (text[i] == '(') - (text[i] == ')');
    if (depth < 0)
      throw bad_value("has a ')' too many");
    if (text[i] == at && depth == 0) {
      result.push_back(text.substr(begin, i - begin));
      begin = i + 1;
    }
  }
  if (depth > 0)
    throw bad_value("lacks a ')'");
  result.push_back(text.substr(begin));
  return result;
}

std::string_view name_of_call(std::string_view text) {
  return trim(text.substr(0, text.find('(')));
}

call parse_call(std::string_view text) {
  text = trim(text);
  call result{name_of_call(text), {}};
  auto open = text.find('(');
  if (open == std::string_view::npos || !text.ends_with(')'))
    throw bad_value("must be " + shown(result.name) + "(...)");
  auto arguments =
    split_outside(text.substr(open + 1, text.size() - open - 2), ',');
  for (auto argument : arguments)
    result.arguments.push_back(cut(argument));
  return result;
}

} // namespace troupe::config
