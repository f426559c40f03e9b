#include "config/values/compression.hpp"

#include "config/text/call_schema.hpp"
#include "config/text/text.hpp"
#include "config/text/value.hpp"

#include <array>

namespace troupe::config {

namespace {

/// In the order of `compression_kind`.
const std::array<call_schema, 5> compression_schemas{{
  {"none", {}},
  {"fp16", {}},
  {"bf16", {}},
  {"int8", {}},
  {"topk",
   {{"share", "X", "of the numbers that travel", number_above(0, 1),
     print(compression{}.share)}}},
}};

} // namespace

compression parse_compression(std::string_view text) {
  text = trim(text);
  const auto& what =
    schema_of(name_of_call(text), compression_schemas, "way of compression");
  if (what.parameters.empty() && text != what.name)
    throw bad_value(what.name + " has no parameters");
  auto values = read_arguments(what, text);
  compression out{
    static_cast<compression_kind>(&what - compression_schemas.data())};
  if (values.has("share"))
    out.share = values.number("share");
  return out;
}

} // namespace troupe::config
