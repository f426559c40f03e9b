#include "config/text/text.hpp"

#include <algorithm>
#include <cstdio>
#include <numeric>
#include <utility>
#include <vector>

namespace troupe::config {

namespace {

constexpr size_t longest_shown = 80;

bool is_control(char c) {
  return static_cast<unsigned char>(c) < 0x20 || c == 0x7f;
}

char small(char c) {
  return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
}

/// A name without what spelling variants change.
std::string bare(std::string_view name) {
  std::string result;
  for (char c : name)
    if (c != '-' && c != '_')
      result += small(c);
  return result;
}

/// A byte of UTF-8 that is not a letter's first.
bool continues_letter(char c) {
  return (static_cast<unsigned char>(c) & 0xc0) == 0x80;
}

std::string normal(std::string_view word) {
  word.remove_prefix(std::min(word.find_first_not_of('-'), word.size()));
  std::string result;
  for (char c : word.substr(0, longest_shown))
    result += c == '_' ? '-' : small(c);
  return result;
}

/// Letters to add, remove, replace, or swap with their neighbour.
size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<size_t> before(b.size() + 1), last(b.size() + 1),
    row(b.size() + 1);
  std::iota(last.begin(), last.end(), size_t{0});
  for (size_t i = 1; i <= a.size(); ++i) {
    row[0] = i;
    for (size_t j = 1; j <= b.size(); ++j) {
      row[j] = std::min(
        {last[j] + 1, row[j - 1] + 1, last[j - 1] + (a[i - 1] != b[j - 1])});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
        row[j] = std::min(row[j], before[j - 2] + 1);
    }
    before = std::exchange(last, row);
  }
  return last[b.size()];
}

} // namespace

std::string_view trim(std::string_view text) {
  auto first = text.find_first_not_of(" \t");
  if (first == std::string_view::npos)
    return {};
  return text.substr(first, text.find_last_not_of(" \t") - first + 1);
}

std::string shown(std::string_view text) {
  auto end = std::min(text.size(), longest_shown);
  // Does not cut within a letter of several bytes.
  while (end > 0 && end < text.size() && continues_letter(text[end]))
    --end;
  std::string result;
  for (char c : text.substr(0, end)) {
    if (is_control(c)) {
      char escaped[8];
      std::snprintf(escaped, sizeof escaped, "\\x%02x",
                    static_cast<unsigned char>(c));
      result += escaped;
    } else {
      result += c;
    }
  }
  return end < text.size() ? result + "..." : result;
}

std::string in_quotes(std::string_view text) {
  std::string result{'\''};
  result += shown(text);
  result += '\'';
  return result;
}

bool has_control_character(std::string_view text) {
  return std::any_of(text.begin(), text.end(), is_control);
}

std::string in_small_letters(std::string_view text) {
  std::string result{text};
  std::ranges::transform(result, result.begin(), small);
  return result;
}

std::optional<std::string> spelt(std::string_view word,
                                 std::span<const std::string> names) {
  if (auto same = std::ranges::find(names, word); same != names.end())
    return *same;
  auto is_meant = [wanted = bare(word)](const std::string& name) {
    return bare(name) == wanted;
  };
  auto first = std::ranges::find_if(names, is_meant);
  if (first == names.end() || std::ranges::count_if(names, is_meant) > 1)
    return std::nullopt;
  return *first;
}

std::optional<std::string> nearest(std::string_view word,
                                   std::span<const std::string> candidates) {
  auto typed = normal(word);
  auto best_distance = std::max<size_t>(1, typed.size() / 3) + 1;
  std::optional<std::string> best;
  for (const auto& candidate : candidates) {
    auto distance = edit_distance(typed, normal(candidate));
    // All letters wrong is no resemblance, however short the word.
    if (distance < best_distance && distance < typed.size()) {
      best_distance = distance;
      best = candidate;
    }
  }
  return best;
}

std::string did_you_mean(std::string_view word,
                         std::span<const std::string> candidates) {
  auto meant = nearest(word, candidates);
  return meant ? "; did you mean " + in_quotes(*meant) + "?" : "";
}

std::string count(uint64_t n, std::string_view noun) {
  return std::to_string(n) + " " + std::string{noun} + (n == 1 ? "" : "s");
}

std::string join(std::span<const std::string> parts, std::string_view between) {
  std::string result;
  for (const auto& part : parts) {
    if (!result.empty())
      result += between;
    result += part;
  }
  return result;
}

std::string size_text(uint64_t bytes) {
  constexpr const char* units[] = {"B", "kB", "MB", "GB", "TB"};
  auto value = static_cast<double>(bytes);
  size_t unit = 0;
  for (; value >= 1000 && unit + 1 < std::size(units); ++unit)
    value /= 1000;
  char text[32];
  std::snprintf(text, sizeof text, unit == 0 ? "%.0f %s" : "%.1f %s", value,
                units[unit]);
  return text;
}

} // namespace troupe::config
