#include "config/values/distribution.hpp"

#include "config/text/call_schema.hpp"
#include "config/text/value.hpp"

#include <array>

namespace troupe::config {

namespace {

constexpr int deepest_nesting = 8;

const parameter mean{"mean", "S", "seconds", number_above(0)};
const parameter factor{"factor", "X", "times as long", number_above(0)};
const parameter base{"base", "DIST", "what is made slower", any_text()};

const std::array<call_schema, 6> distribution_schemas{{
  {"constant",
   {{"value", "S", "seconds", number_from(0, largest_number)}},
   true},
  {"gamma", {mean, {"cv", "X", "standard deviation / mean", number_above(0)}}},
  {"exp",
   {{"offset", "S", "seconds that are added", number_from(0, largest_number)},
    mean}},
  {"pareto", {{"alpha", "X", "of the tail", number_above(1)}, mean}},
  {"transient", {base, {"p", "X", "how often", number_from(0, 1)}, factor}},
  {"slow",
   {base, {"worker", "R", "whom, by rank", whole(0, largest_rank)}, factor}},
}};

distribution parse_at(std::string_view text, int depth) {
  if (depth > deepest_nesting)
    throw bad_value("is nested too deeply");
  const auto& what =
    schema_of(name_of_call(text), distribution_schemas, "distribution");
  distribution result{what.name, {}, {}};
  if (text.find('(') == text.npos)
    throw bad_value("must be " + what.name + "(...)");
  for (const auto& [name, value] : read_arguments(what, text))
    if (name == base.name)
      result.base = std::make_shared<distribution>(parse_at(value, depth + 1));
    else
      result.numbers.emplace(name, parse_double(value));
  return result;
}

} // namespace

distribution parse_distribution(std::string_view text) {
  return parse_at(text, 0);
}

} // namespace troupe::config
