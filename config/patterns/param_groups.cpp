#include "config/patterns/param_groups.hpp"

#include "config/patterns/key_patterns.hpp"
#include "config/patterns/pattern_rules.hpp"
#include "config/text/text.hpp"
#include "config/text/value.hpp"

#include <array>
#include <utility>

namespace troupe::config {

namespace {

using number = std::optional<double> group_numbers::*;

constexpr std::array<std::pair<std::string_view, number>, 3> all_numbers{
  {{"lr", &group_numbers::lr},
   {"weight-decay", &group_numbers::weight_decay},
   {"momentum", &group_numbers::momentum}}};

constexpr std::string_view form =
  "PATTERN = lr=X weight-decay=X momentum=X, any of the three";

double parse_number(std::string_view name, const std::string& text) {
  auto out = parse<double>(text);
  if (out < 0 || (name == "momentum" && out >= 1))
    throw bad_value(std::string{name} + "=" + text + ": must be at least 0" +
                    (name == "momentum" ? " and below 1" : ""));
  return out;
}

void add_word(group_numbers& out, const std::string& word) {
  auto equals = word.find('=');
  auto name = word.substr(0, equals);
  for (auto [known, where] : all_numbers) {
    if (name != known || equals == std::string::npos)
      continue;
    if (out.*where)
      throw bad_value("has " + name + " twice");
    out.*where = parse_number(known, word.substr(equals + 1));
    return;
  }
  throw bad_value(in_quotes(word) + " must be lr=X, weight-decay=X or "
                                    "momentum=X");
}

} // namespace

group_numbers parse_group_numbers(std::string_view text) {
  group_numbers out;
  for (const auto& word : words_of(text))
    add_word(out, word);
  if (out == group_numbers{})
    throw bad_value("has no numbers: must be lr=X, weight-decay=X or "
                    "momentum=X, or several of them");
  return out;
}

std::string to_string(const group_numbers& numbers) {
  std::vector<std::string> out;
  for (auto [name, where] : all_numbers)
    if (numbers.*where)
      out.push_back(std::string{name} + "=" + print(*(numbers.*where)));
  return join(out, " ");
}

std::vector<param_group_rule> parse_param_groups(std::string_view text) {
  std::vector<param_group_rule> out;
  for (const auto& [pattern, value] : parse_pattern_rules(text, form))
    out.push_back({pattern, parse_group_numbers(value)});
  return out;
}

std::string to_string(const std::vector<param_group_rule>& rules) {
  std::vector<std::string> out;
  for (const auto& rule : rules)
    out.push_back(rule.pattern + "=" + to_string(rule.numbers));
  return join(out, ",");
}

bool matches(const param_group_rule& rule, const std::string& parameter) {
  return key_patterns{words_of(rule.pattern)}.match(parameter);
}

} // namespace troupe::config
