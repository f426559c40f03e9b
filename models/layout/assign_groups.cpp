#include "models/layout/assign_groups.hpp"

#include "config/schema/optimizers.hpp"
#include "config/text/failure.hpp"
#include "config/text/text.hpp"

#include <algorithm>

namespace troupe::models {

namespace {

using config::group_numbers;
using config::param_group_rule;

/// All names of each parameter, by its first.
std::map<std::string, std::vector<std::string>>
names_of(const flat_layout& layout) {
  std::map<std::string, std::vector<std::string>> out;
  for (const auto& slot : layout.slots())
    out[slot.name].push_back(slot.name);
  for (const auto& slot : layout.state_dict())
    if (auto first = out.find(slot.same_as); first != out.end())
      first->second.push_back(slot.name);
  return out;
}

/// The numbers of `first`; where it has none, those of `then`.
group_numbers merged(const group_numbers& first, const group_numbers& then) {
  return {first.lr ? first.lr : then.lr,
          first.weight_decay ? first.weight_decay : then.weight_decay,
          first.momentum ? first.momentum : then.momentum};
}

} // namespace

void assign_groups(flat_layout& layout,
                   const std::map<std::string, group_numbers>& of_network,
                   const config::training_settings& settings) {
  auto rules = config::parse_param_groups(settings.param_groups);
  auto names = names_of(layout);
  auto is_for = [&](const param_group_rule& rule, const parameter_slot& slot) {
    return std::ranges::any_of(names.at(slot.name), [&](const auto& name) {
      return config::matches(rule, name);
    });
  };
  for (const auto& rule : rules)
    if (std::ranges::none_of(
          layout.slots(), [&](const auto& slot) { return is_for(rule, slot); }))
      throw usage_error("[param-groups]: " + config::in_quotes(rule.pattern) +
                        " matches no parameter that is trained");
  layout.set_groups([&](const parameter_slot& slot) {
    auto described = of_network.find(slot.name);
    auto its = std::ranges::find_if(
      rules, [&](const auto& rule) { return is_for(rule, slot); });
    return merged(its == rules.end() ? group_numbers{} : its->numbers,
                  described == of_network.end() ? group_numbers{}
                                                : described->second);
  });
  for (const auto& slot : layout.slots())
    if (auto why = config::misfit_of(slot.group, settings); !why.empty())
      throw usage_error("parameter " + slot.name + " " + why);
}

} // namespace troupe::models
