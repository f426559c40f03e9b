#include "config/distribution.hpp"

#include "config/call.hpp"
#include "config/text.hpp"
#include "config/value.hpp"

#include <vector>

namespace troupe::config {

namespace {

constexpr int deepest_nesting = 8;

struct parameter {
  std::string name;
  number_rule rule;
};

struct shape {
  std::string name;
  bool has_base;
  std::vector<parameter> parameters;
};

constexpr number_rule above_one{"must be above 1", [](double x) {
                                  return x > 1;
                                }};
constexpr number_rule probability{"must be from 0 to 1", [](double x) {
                                    return x >= 0 && x <= 1;
                                  }};

const std::vector<shape>& shapes() {
  static const std::vector<shape> all{
    {"constant", false, {{"value", not_negative}}},
    {"gamma", false, {{"mean", positive}, {"cv", positive}}},
    {"exp", false, {{"offset", not_negative}, {"mean", positive}}},
    {"pareto", false, {{"alpha", above_one}, {"mean", positive}}},
    {"transient", true, {{"p", probability}, {"factor", positive}}},
    {"slow", true, {{"worker", is_rank}, {"factor", positive}}},
  };
  return all;
}

const shape& shape_of(std::string_view name) {
  std::vector<std::string> known;
  for (const auto& candidate : shapes()) {
    if (candidate.name == name)
      return candidate;
    known.push_back(candidate.name);
  }
  throw bad_value(in_quotes(name) + " is no distribution; known: " +
                  join(known, ", ") + did_you_mean(name, known));
}

distribution parse_at(std::string_view text, int depth);

void take_number(distribution& result, const parameter& what,
                 std::string_view text) {
  auto value = parse_number(text, what.rule, what.name, result.name);
  if (!result.numbers.emplace(what.name, value).second)
    throw bad_value(what.name + " of " + result.name + " is given twice");
}

void take_argument(distribution& result, const shape& what,
                   const call::argument& given, int depth) {
  if (given.name.empty()) {
    if (what.name != "constant")
      throw bad_value(in_quotes(given.value) + " must be NAME=VALUE");
    return take_number(result, what.parameters.front(), given.value);
  }
  if (what.has_base && given.name == "base") {
    if (result.base)
      throw bad_value("base of " + what.name + " is given twice");
    result.base =
      std::make_shared<distribution>(parse_at(given.value, depth + 1));
    return;
  }
  for (const auto& candidate : what.parameters)
    if (candidate.name == given.name)
      return take_number(result, candidate, given.value);
  throw bad_value(what.name + " has no parameter " + in_quotes(given.name));
}

distribution parse_at(std::string_view text, int depth) {
  if (depth > deepest_nesting)
    throw bad_value("is nested too deeply");
  const auto& what = shape_of(name_of_call(text));
  auto written = parse_call(text);
  distribution result{what.name, {}, {}};
  for (const auto& argument : written.arguments)
    take_argument(result, what, argument, depth);
  for (const auto& needed : what.parameters)
    if (!result.numbers.contains(needed.name))
      throw bad_value(what.name + " needs " + needed.name);
  if (what.has_base && !result.base)
    throw bad_value(what.name + " needs base");
  return result;
}

} // namespace

distribution parse_distribution(std::string_view text) {
  return parse_at(text, 0);
}

} // namespace troupe::config
