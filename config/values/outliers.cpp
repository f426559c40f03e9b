#include "config/values/outliers.hpp"

#include "config/text/call_schema.hpp"
#include "config/text/text.hpp"
#include "config/text/value.hpp"

#include <array>

namespace troupe::config {

namespace {

constexpr double usual_factor = 10;

const std::array<call_schema, 2> outlier_schemas{{
  {"none", {}},
  {"refuse",
   {{"factor", "X", "times the median of the other workers' norms",
     number_above(1), print(usual_factor)}}},
}};

} // namespace

std::optional<double> parse_outliers(std::string_view text) {
  text = trim(text);
  const auto& rule = schema_of(name_of_call(text), outlier_schemas, "rule");
  if (rule.parameters.empty() && text != rule.name)
    throw bad_value(rule.name + " has no parameters");
  auto values = read_arguments(rule, text);
  return values.has("factor") ? std::optional{values.number("factor")}
                              : std::nullopt;
}

} // namespace troupe::config
