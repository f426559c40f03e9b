#include "models/optim/groups.hpp"

#include <algorithm>
#include <set>
#include <string>

namespace troupe::models {

namespace {

using config::decay_exclusion;

/// The layer's name; empty for a parameter of the network itself.
std::string layer_of(const std::string& parameter) {
  auto dot = parameter.rfind('.');
  return dot == std::string::npos ? "" : parameter.substr(0, dot);
}

bool is(const std::string& parameter, std::string_view suffix) {
  return parameter == suffix || parameter.ends_with("." + std::string{suffix});
}

std::set<std::string> normalising_layers(const flat_layout& layout) {
  std::set<std::string> out;
  for (const auto& slot : layout.slots())
    if (slot.normalises.value_or(is(slot.name, "weight") &&
                                 slot.shape.size() == 1))
      out.insert(layer_of(slot.name));
  return out;
}

/// The parameters that `--weight-decay-exclude` names.
class excluded_parameters {
public:
  excluded_parameters(const flat_layout& layout, decay_exclusion rule)
    : biases_(rule == decay_exclusion::bias ||
              rule == decay_exclusion::bias_and_norm) {
    if (rule == decay_exclusion::norm || rule == decay_exclusion::bias_and_norm)
      layers_ = normalising_layers(layout);
  }

  bool contains(const std::string& parameter) const {
    return (biases_ && is(parameter, "bias")) ||
           layers_.contains(layer_of(parameter));
  }

private:
  bool biases_;
  std::set<std::string> layers_;
};

} // namespace

bool parameter_groups::fit(uint64_t count) const {
  uint64_t end = 0;
  for (const auto& part : parts) {
    if (part.end <= end || part.group >= terms.size())
      return false;
    end = part.end;
  }
  return end == count;
}

parameter_groups groups_of(const flat_layout& layout,
                           const config::training_settings& settings) {
  excluded_parameters excluded{layout, settings.weight_decay_exclude};
  parameter_groups out{{{1, settings.weight_decay, settings.momentum}}, {}};
  uint64_t end = 0;
  for (uint32_t i = 0; i < layout.slots().size(); ++i) {
    const auto& slot = layout.slots()[i];
    auto terms = out.terms.front();
    if (excluded.contains(slot.name))
      terms.weight_decay = 0;
    // With local steps groups are those of the workers' own optimiser.
    auto own =
      settings.local_steps.most > 0 ? config::group_numbers{} : slot.group;
    if (own.lr)
      terms.lr_factor = *own.lr / settings.lr;
    terms.weight_decay = own.weight_decay.value_or(terms.weight_decay);
    terms.momentum = own.momentum.value_or(terms.momentum);
    auto known = std::ranges::find(out.terms, terms);
    auto group = static_cast<uint32_t>(known - out.terms.begin());
    if (known == out.terms.end())
      out.terms.push_back(terms);
    if (slot.count > 0)
      out.parts.push_back({end += slot.count, i, group});
  }
  return out;
}

parameter_groups within(const parameter_groups& whole,
                        const element_range& part) {
  parameter_groups out{whole.terms, {}};
  uint64_t first = 0;
  for (const auto& one : whole.parts) {
    auto from = std::max(first, part.first);
    auto end = std::min(one.end, part.end());
    if (from < end)
      out.parts.push_back({end - part.first, one.parameter, one.group});
    first = one.end;
  }
  return out;
}

} // namespace troupe::models
