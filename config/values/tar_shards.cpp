#include "config/values/tar_shards.hpp"

#include "config/text/call_schema.hpp"
#include "config/text/text.hpp"
#include "config/text/value.hpp"

#include <cstdint>
#include <optional>
#include <string_view>

namespace troupe::config {

namespace {

constexpr uint64_t most_shards = 1'000'000;

/// Longer than any path of a file.
constexpr size_t longest_pattern = 4096;
constexpr size_t most_digits = 10;

/// "{000..146}" in a pattern.
struct number_range {
  size_t begin; ///< Of its text.
  size_t end;
  uint64_t from;
  uint64_t to;
  size_t digits; ///< At least so many each.
};

/// Nothing where there is none. Throws `bad_value`.
std::optional<number_range> find_range(std::string_view pattern) {
  auto open = pattern.find('{');
  auto close = pattern.find('}');
  if (pattern.size() > longest_pattern)
    throw bad_value("must not be longer than a path");
  if (open == pattern.npos && close == pattern.npos)
    return std::nullopt;
  auto dots = pattern.find("..", open);
  if (open == pattern.npos || close == pattern.npos || dots == pattern.npos ||
      close < dots || pattern.find_first_of("{}", close + 1) != pattern.npos)
    throw bad_value("must have one range, such as {000..146}");
  auto first = pattern.substr(open + 1, dots - open - 1);
  auto last = pattern.substr(dots + 2, close - dots - 2);
  number_range out{open, close + 1, parse_unsigned(first, UINT32_MAX),
                   parse_unsigned(last, UINT32_MAX), first.size()};
  if (out.to < out.from || out.to - out.from >= most_shards)
    throw bad_value("must have a range that goes up, of at most a million");
  if (first.size() > most_digits)
    throw bad_value("must have a range of numbers of at most " +
                    std::to_string(most_digits) + " digits");
  return out;
}

const call_schema tar_schema{
  "tar",
  {{"train", "FILES", "the shards to train with", file_path(), "", true},
   {"val", "FILES", "the shards to evaluate with", file_path(), "", true}}};

} // namespace

bool is_tar_shards(std::string_view text) {
  return name_of_call(text) == "tar";
}

tar_shards parse_tar_shards(std::string_view text) {
  tar_shards out;
  if (trim(text) == "tar")
    return out;
  auto values = read_arguments(tar_schema, text);
  if (!values.has("train") || !values.has("val"))
    throw bad_value("must name both: tar(train=FILES,val=FILES)");
  out = {values.text("train"), values.text("val")};
  find_range(out.train);
  find_range(out.validation);
  return out;
}

std::vector<std::string> expand_range(const std::string& pattern) {
  auto range = find_range(pattern);
  if (!range)
    return {pattern};
  std::vector<std::string> out;
  for (auto i = range->from; i <= range->to; ++i) {
    auto number = std::to_string(i);
    if (number.size() < range->digits)
      number.insert(0, range->digits - number.size(), '0');
    out.push_back(pattern.substr(0, range->begin) + number +
                  pattern.substr(range->end));
  }
  return out;
}

} // namespace troupe::config
