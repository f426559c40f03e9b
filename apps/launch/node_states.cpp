#include "apps/launch/node_states.hpp"

#include <algorithm>
#include <string_view>

namespace troupe::app {

namespace {

std::string text_of(const node_state& one) {
  auto where = one.host.empty() ? "" : " (" + one.host + ")";
  return one.name + where + " " + one.trouble;
}

std::string rest_of(size_t number) {
  return number == 0 ? "" : ", " + std::to_string(number) + " more do not";
}

} // namespace

std::string states_line(std::span<const node_state> all, size_t columns) {
  auto left = static_cast<size_t>(std::ranges::count_if(
    all, [](const node_state& one) { return !one.trouble.empty(); }));
  auto count = std::to_string(all.size());
  auto out = left == 0
               ? "all " + count + " run"
               : std::to_string(all.size() - left) + " of " + count + " run";
  constexpr std::string_view named = ", ";
  std::string_view between = "; ";
  for (const auto& one : all) {
    if (one.trouble.empty())
      continue;
    auto longer = out + std::string{between} + text_of(one);
    if (longer.size() + rest_of(left - 1).size() > columns)
      break;
    out = std::move(longer);
    between = named;
    --left;
  }
  if (between == named)
    out += rest_of(left);
  out.resize(std::min(out.size(), columns));
  return out;
}

} // namespace troupe::app
