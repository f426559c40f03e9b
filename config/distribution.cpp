#include "config/distribution.hpp"

#include "config/text.hpp"
#include "config/value.hpp"

#include <cmath>
#include <vector>

namespace troupe::config {

namespace {

constexpr int deepest_nesting = 8;

struct parameter {
  std::string name;
  const char* rule;
  bool (*holds)(double);
};

struct shape {
  std::string name;
  bool has_base;
  std::vector<parameter> parameters;
};

bool positive(double x) {
  return x > 0;
}

bool not_negative(double x) {
  return x >= 0;
}

bool above_one(double x) {
  return x > 1;
}

bool probability(double x) {
  return x >= 0 && x <= 1;
}

bool index(double x) {
  return x >= 0 && x < 1e9 && x == std::floor(x);
}

const std::vector<shape>& shapes() {
  static const std::vector<shape> all{
    {"constant", false, {{"value", "must not be negative", not_negative}}},
    {"gamma",
     false,
     {{"mean", "must be above 0", positive},
      {"cv", "must be above 0", positive}}},
    {"exp",
     false,
     {{"offset", "must not be negative", not_negative},
      {"mean", "must be above 0", positive}}},
    {"pareto",
     false,
     {{"alpha", "must be above 1", above_one},
      {"mean", "must be above 0", positive}}},
    {"transient",
     true,
     {{"p", "must be from 0 to 1", probability},
      {"factor", "must be above 0", positive}}},
    {"slow",
     true,
     {{"worker", "must be a worker's rank", index},
      {"factor", "must be above 0", positive}}},
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

/// Cuts at the commas that stand in no inner parentheses.
std::vector<std::string_view> split_arguments(std::string_view text) {
  std::vector<std::string_view> result;
  int depth = 0;
  size_t begin = 0;
  for (size_t i = 0; i < text.size(); ++i) {
    depth += (text[i] == '(') - (text[i] == ')');
    if (depth < 0)
      throw bad_value("has a ')' too many");
    if (text[i] == ',' && depth == 0) {
      result.push_back(text.substr(begin, i - begin));
      begin = i + 1;
    }
  }
  if (depth > 0)
    throw bad_value("lacks a ')'");
  result.push_back(text.substr(begin));
  return result;
}

distribution parse_at(std::string_view text, int depth);

void take_number(distribution& result, const parameter& what,
                 std::string_view text) {
  double value = 0;
  try {
    value = parse<double>(text);
  } catch (const bad_value& why) {
    throw bad_value(what.name + " of " + result.name + " " + why.what());
  }
  if (!what.holds(value))
    throw bad_value(what.name + " of " + result.name + " " + what.rule);
  if (!result.numbers.emplace(what.name, value).second)
    throw bad_value(what.name + " of " + result.name + " is given twice");
}

void take_argument(distribution& result, const shape& what,
                   std::string_view argument, int depth) {
  auto equals = argument.find('=');
  auto name = trim(argument.substr(0, equals));
  if (equals == std::string_view::npos) {
    if (what.name != "constant")
      throw bad_value(in_quotes(name) + " must be NAME=VALUE");
    return take_number(result, what.parameters.front(), name);
  }
  auto value = trim(argument.substr(equals + 1));
  if (what.has_base && name == "base") {
    if (result.base)
      throw bad_value("base of " + what.name + " is given twice");
    result.base = std::make_shared<distribution>(parse_at(value, depth + 1));
    return;
  }
  for (const auto& candidate : what.parameters)
    if (candidate.name == name)
      return take_number(result, candidate, value);
  throw bad_value(what.name + " has no parameter " + in_quotes(name));
}

distribution parse_at(std::string_view text, int depth) {
  if (depth > deepest_nesting)
    throw bad_value("is nested too deeply");
  text = trim(text);
  auto open = text.find('(');
  const auto& what = shape_of(trim(text.substr(0, open)));
  if (open == std::string_view::npos || !text.ends_with(')'))
    throw bad_value("must be " + what.name + "(...)");
  distribution result{what.name, {}, {}};
  auto inner = text.substr(open + 1, text.size() - open - 2);
  for (auto argument : split_arguments(inner))
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
