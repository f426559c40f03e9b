#include "config/tar_shards.hpp"

#include "config/call.hpp"
#include "config/text.hpp"
#include "config/value.hpp"

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

void take(std::string& to, const call::argument& given) {
  if (!to.empty())
    throw bad_value("has " + std::string{given.name} + " twice");
  if (given.value.empty())
    throw bad_value("names no shards");
  to = given.value;
  find_range(to);
}

} // namespace

bool is_tar_shards(std::string_view text) {
  return name_of_call(text) == "tar";
}

tar_shards parse_tar_shards(std::string_view text) {
  tar_shards out;
  if (trim(text) == "tar")
    return out;
  for (const auto& given : parse_call(text).arguments) {
    if (given.name == "train")
      take(out.train, given);
    else if (given.name == "val")
      take(out.validation, given);
    else
      throw bad_value(in_quotes(given.name.empty() ? given.value : given.name) +
                      " is no parameter of tar, which has train and val");
  }
  if (out.train.empty() || out.validation.empty())
    throw bad_value("must name both: tar(train=FILES,val=FILES)");
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
