#include "config/tar_shards.hpp"

#include "config/call.hpp"
#include "config/text.hpp"
#include "config/value.hpp"

#include <cstdint>

namespace troupe::config {

namespace {

constexpr uint64_t most_shards = 1'000'000;

void take(std::string& to, const call::argument& given) {
  if (!to.empty())
    throw bad_value("has " + std::string{given.name} + " twice");
  if (given.value.empty())
    throw bad_value("names no shards");
  to = given.value;
  expand_range(to);
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
  auto open = pattern.find('{');
  auto close = pattern.find('}');
  if (open == std::string::npos && close == std::string::npos)
    return {pattern};
  auto dots = pattern.find("..", open);
  if (open == std::string::npos || close == std::string::npos ||
      dots == std::string::npos || close < dots ||
      pattern.find_first_of("{}", close + 1) != std::string::npos)
    throw bad_value("must have one range, such as {000..146}");
  auto first = pattern.substr(open + 1, dots - open - 1);
  auto last = pattern.substr(dots + 2, close - dots - 2);
  auto from = parse_unsigned(first, UINT32_MAX);
  auto to = parse_unsigned(last, UINT32_MAX);
  if (to < from || to - from >= most_shards)
    throw bad_value("must have a range that goes up, of at most a million");
  std::vector<std::string> out;
  for (auto i = from; i <= to; ++i) {
    auto number = std::to_string(i);
    if (number.size() < first.size())
      number.insert(0, first.size() - number.size(), '0');
    out.push_back(pattern.substr(0, open) + number + pattern.substr(close + 1));
  }
  return out;
}

} // namespace troupe::config
