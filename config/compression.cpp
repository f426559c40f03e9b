#include "config/compression.hpp"

#include "config/call.hpp"
#include "config/text.hpp"
#include "config/value.hpp"

#include <array>
#include <utility>

namespace troupe::config {

namespace {

constexpr number_rule share_rule{"must be above 0 and at most 1", [](double x) {
                                   return x > 0 && x <= 1;
                                 }};

constexpr std::array<std::pair<std::string_view, compression_kind>, 4>
  plain_kinds{{
    {"none", compression_kind::none},
    {"fp16", compression_kind::fp16},
    {"bf16", compression_kind::bf16},
    {"int8", compression_kind::int8},
  }};

compression parse_topk(std::string_view text) {
  compression out{compression_kind::topk};
  if (text.find('(') == std::string_view::npos)
    return out;
  auto written = parse_call(text);
  if (written.empty())
    return out;
  if (written.arguments.size() > 1)
    throw bad_value("has more than one parameter: topk has share alone");
  const auto& given = written.arguments.front();
  if (given.name != "share")
    throw bad_value(in_quotes(given.name.empty() ? given.value : given.name) +
                    " is no parameter of topk, which has share");
  out.share = parse_number(given.value, share_rule, given.name, written.name);
  return out;
}

} // namespace

compression parse_compression(std::string_view text) {
  text = trim(text);
  for (const auto& [name, kind] : plain_kinds)
    if (text == name)
      return compression{kind};
  if (name_of_call(text) == "topk")
    return parse_topk(text);
  throw bad_value("must be none, fp16, bf16, int8 or topk(share=0.01)");
}

} // namespace troupe::config
