#include "models/optim/decay.hpp"

#include <algorithm>
#include <set>
#include <string>

namespace troupe::models {

namespace {

/// The layer's name; empty for a parameter of the network itself.
std::string layer_of(const std::string& parameter) {
  auto dot = parameter.rfind('.');
  return dot == std::string::npos ? "" : parameter.substr(0, dot);
}

bool is(const std::string& parameter, std::string_view what) {
  return parameter == what || parameter.ends_with("." + std::string{what});
}

std::set<std::string> normalising_layers(const flat_layout& layout) {
  std::set<std::string> out;
  for (const auto& slot : layout.slots())
    if (slot.normalises.value_or(is(slot.name, "weight") &&
                                 slot.shape.size() == 1))
      out.insert(layer_of(slot.name));
  return out;
}

} // namespace

std::vector<element_range> without_decay(const flat_layout& layout,
                                         config::decay_exclusion what) {
  using config::decay_exclusion;
  auto biases =
    what == decay_exclusion::bias || what == decay_exclusion::bias_and_norm;
  auto norms =
    what == decay_exclusion::norm || what == decay_exclusion::bias_and_norm;
  auto layers = normalising_layers(layout);
  std::vector<element_range> out;
  for (const auto& slot : layout.slots()) {
    auto excluded = (biases && is(slot.name, "bias")) ||
                    (norms && layers.contains(layer_of(slot.name)));
    if (!excluded)
      continue;
    if (!out.empty() && out.back().end() == slot.offset)
      out.back().count += slot.count;
    else
      out.push_back({slot.offset, slot.count});
  }
  return out;
}

std::vector<element_range> within(const std::vector<element_range>& ranges,
                                  const element_range& part) {
  std::vector<element_range> out;
  for (const auto& range : ranges) {
    auto first = std::max(range.first, part.first);
    auto end = std::min(range.end(), part.end());
    if (first < end)
      out.push_back({first - part.first, end - first});
  }
  return out;
}

} // namespace troupe::models
