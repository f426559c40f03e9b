#include "config/sources/node_list.hpp"

#include "config/text/value.hpp"

#include <algorithm>

namespace troupe::config {

namespace {

using names = std::vector<std::string>;

constexpr size_t most_nodes = 65'536;

[[noreturn]] void refuse_list() {
  throw bad_value("is no list of nodes, such as n[01-03,7],b");
}

void require_few(uint64_t nodes) {
  if (nodes > most_nodes)
    throw bad_value("names more than " + std::to_string(most_nodes) + " nodes");
}

/// Splits at commas, but not at those within brackets.
std::vector<std::string_view> split_list(std::string_view text) {
  std::vector<std::string_view> out;
  size_t from = 0;
  auto inside = false;
  for (size_t at = 0; at < text.size(); ++at) {
    if (text[at] == '[' || text[at] == ']') {
      if (inside == (text[at] == '['))
        refuse_list();
      inside = !inside;
    } else if (text[at] == ',' && !inside) {
      out.push_back(text.substr(from, at - from));
      from = at + 1;
    }
  }
  if (inside)
    refuse_list();
  out.push_back(text.substr(from));
  return out;
}

/// "01" to "03" as 01, 02 and 03: numbers are as wide as the first one.
void add_numbers(names& to, std::string_view first, std::string_view last) {
  auto from = parse_unsigned(first, UINT32_MAX);
  auto end = parse_unsigned(last, UINT32_MAX);
  if (end < from)
    refuse_list();
  require_few(end - from + 1 + to.size());
  for (auto number = from; number <= end; ++number) {
    auto text = std::to_string(number);
    text.insert(0, first.size() - std::min(first.size(), text.size()), '0');
    to.push_back(std::move(text));
  }
}

/// What stands within brackets: "01-03,7".
names expand_numbers(std::string_view text) {
  names out;
  for (auto range : split_list(text)) {
    auto dash = range.find('-');
    auto first = range.substr(0, dash);
    add_numbers(out, first,
                dash == range.npos ? first : range.substr(dash + 1));
  }
  return out;
}

/// One name, with any number of brackets in it.
names expand_name(std::string_view text) {
  auto open = text.find('[');
  if (open == text.npos)
    return {std::string{text}};
  auto close = text.find(']', open);
  names out;
  auto numbers = expand_numbers(text.substr(open + 1, close - open - 1));
  auto rest = expand_name(text.substr(close + 1));
  require_few(numbers.size() * rest.size());
  for (const auto& number : numbers)
    for (const auto& end : rest)
      out.push_back(std::string{text.substr(0, open)} + number + end);
  return out;
}

} // namespace

std::vector<std::string> expand_node_list(std::string_view text) {
  names out;
  for (auto part : split_list(text)) {
    if (part.empty())
      refuse_list();
    for (auto& name : expand_name(part))
      out.push_back(std::move(name));
    require_few(out.size());
  }
  return out;
}

std::optional<uint32_t> number_of_node(std::string_view list, uint32_t index) {
  try {
    for (auto part : split_list(list)) {
      auto open = part.find("(x");
      uint32_t times = 1;
      if (open != part.npos)
        times = parse<uint32_t>(part.substr(open + 2, part.size() - open - 3));
      if (index < times)
        return parse<uint32_t>(part.substr(0, open));
      index -= times;
    }
  } catch (const bad_value&) {
    // There is no number that can be read.
  }
  return std::nullopt;
}

} // namespace troupe::config
