#include "actors/policies/state_text.hpp"

#include <algorithm>
#include <charconv>

namespace troupe::policies {

namespace {

constexpr size_t longest_list = 16;

/// Takes the number at the front of `text`.
bool take_number(std::string_view& text, uint64_t& x) {
  auto last = text.data() + text.size();
  auto [end, failed] = std::from_chars(text.data(), last, x);
  if (failed != std::errc{})
    return false;
  text.remove_prefix(static_cast<size_t>(end - text.data()));
  return true;
}

} // namespace

state_writer::state_writer(std::string_view name) : text_(name) {
  // nop
}

void state_writer::number(std::string_view key, uint64_t x) {
  rows(key, 1, {&x, 1});
}

void state_writer::rows(std::string_view key, size_t columns,
                        std::span<const uint64_t> flat) {
  text_ += ' ';
  text_ += key;
  text_ += '=';
  for (size_t i = 0; i < flat.size(); ++i) {
    if (i > 0)
      text_ += i % columns == 0 ? ',' : ':';
    text_ += std::to_string(flat[i]);
  }
}

bool state_reader::name(std::string_view expected) {
  if (!rest_.starts_with(expected))
    return false;
  rest_.remove_prefix(expected.size());
  return rest_.empty() || rest_.front() == ' ';
}

bool state_reader::number(std::string_view key, uint64_t& x) {
  std::string_view text;
  return value(key, text) && take_number(text, x) && text.empty();
}

bool state_reader::same(std::string_view key, uint64_t expected) {
  uint64_t x = 0;
  return number(key, x) && x == expected;
}

bool state_reader::rows(std::string_view key, size_t columns,
                        std::vector<uint64_t>& flat) {
  std::string_view text;
  if (!value(key, text))
    return false;
  flat.clear();
  while (!text.empty()) {
    uint64_t x = 0;
    if (!take_number(text, x))
      return false;
    flat.push_back(x);
    if (text.empty())
      break;
    if (text.front() != (flat.size() % columns == 0 ? ',' : ':'))
      return false;
    text.remove_prefix(1);
    if (text.empty())
      return false;
  }
  return flat.size() % columns == 0;
}

bool state_reader::value(std::string_view key, std::string_view& out) {
  if (!rest_.starts_with(' '))
    return false;
  rest_.remove_prefix(1);
  if (!rest_.starts_with(key))
    return false;
  rest_.remove_prefix(key.size());
  if (!rest_.starts_with('='))
    return false;
  rest_.remove_prefix(1);
  out = rest_.substr(0, std::min(rest_.find(' '), rest_.size()));
  rest_.remove_prefix(out.size());
  return true;
}

std::string brief(std::span<const uint64_t> xs) {
  std::string text = "[";
  auto shown = std::min(xs.size(), longest_list);
  for (size_t i = 0; i < shown; ++i) {
    if (i > 0)
      text += ',';
    text += std::to_string(xs[i]);
  }
  if (shown < xs.size())
    text += " +" + std::to_string(xs.size() - shown);
  return text + "]";
}

} // namespace troupe::policies
