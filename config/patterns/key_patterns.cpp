#include "config/patterns/key_patterns.hpp"

#include "config/text/text.hpp"
#include "config/text/value.hpp"

#include <fnmatch.h>

#include <algorithm>

namespace troupe::config {

namespace {

bool matches(const std::string& pattern, const std::string& key) {
  return fnmatch(pattern.c_str(), key.c_str(), 0) == 0;
}

} // namespace

bool key_patterns::match(const std::string& key) const {
  return std::ranges::any_of(
    all, [&](const std::string& pattern) { return matches(pattern, key); });
}

key_patterns parse_key_patterns(std::string_view text) {
  key_patterns out;
  text = trim(text);
  while (!text.empty()) {
    auto comma = std::min(text.find(','), text.size());
    auto one = trim(text.substr(0, comma));
    if (one.empty() || comma + 1 == text.size())
      throw bad_value("has an empty pattern");
    out.all.emplace_back(one);
    text = trim(text.substr(std::min(comma + 1, text.size())));
  }
  return out;
}

const std::string* idle_pattern(const key_patterns& patterns,
                                const std::vector<std::string>& keys) {
  for (const auto& pattern : patterns.all)
    if (std::ranges::none_of(
          keys, [&](const auto& key) { return matches(pattern, key); }))
      return &pattern;
  return nullptr;
}

} // namespace troupe::config
