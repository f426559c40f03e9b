#include "config/values/staleness_rule.hpp"

#include "config/text/call_schema.hpp"
#include "config/text/text.hpp"
#include "config/text/value.hpp"

#include <array>

namespace troupe::config {

namespace {

const std::array<call_schema, 3> staleness_schemas{{
  {"none", {}},
  {"polynomial",
   {{"power", "A", "of 1 plus the staleness, by which a gradient is divided",
     number_from(0, 100), "0.5"}}},
  {"delayed-nesterov",
   {{"every", "N", "steps from one use of the momentum to the next",
     whole(0, 1'000'000), "0"}}},
}};

} // namespace

staleness_rule parse_staleness_rule(std::string_view text) {
  text = trim(text);
  const auto& rule = schema_of(name_of_call(text), staleness_schemas, "rule");
  auto values = read_arguments(rule, text);
  if (values.has("power"))
    return {staleness_rule_kind::polynomial, values.number("power")};
  if (values.has("every"))
    return {staleness_rule_kind::delayed_nesterov, 0, values.whole("every")};
  return {};
}

} // namespace troupe::config
