#include "config/schema/optimizers.hpp"

#include "config/patterns/param_groups.hpp"
#include "config/schema/inner_optimizer.hpp"
#include "config/text/registered.hpp"
#include "config/text/settings.hpp"

#include <algorithm>
#include <utility>
#include <vector>

namespace troupe::config {

namespace {

std::vector<optimizer_facts>& added_optimizers() {
  static std::vector<optimizer_facts> all;
  return all;
}

std::vector<std::string> checked_names() {
  std::vector<registered_name> all;
  std::vector<std::string> out;
  for (const auto& each : added_optimizers()) {
    all.push_back({each.name, each.slots != nullptr});
    out.push_back(each.name);
  }
  require_registered("optimizer", all);
  return out;
}

} // namespace

void add_optimizer(optimizer_facts facts) {
  added_optimizers().push_back(std::move(facts));
}

std::span<const std::string> known_optimizers() {
  static const auto names = checked_names();
  return names;
}

std::string misfit_of(const group_numbers& group,
                      const training_settings& settings) {
  if (settings.local_steps.most > 0) // Groups are those of the workers' own.
    return misfit_of(group, inner_training(settings));
  if (!group.momentum)
    return "";
  const auto* facts = find_optimizer(settings.optimizer);
  if (facts != nullptr && !facts->has_momentum)
    return "has a momentum, which " + settings.optimizer + " does not know";
  if (*group.momentum > 0 && settings.momentum == 0)
    return "has a momentum, but --momentum is 0: set --momentum above 0, and "
           "give momentum=0 to each group that should have none";
  return "";
}

const optimizer_facts* find_optimizer(const std::string& name) {
  known_optimizers(); // Checks.
  const auto& all = added_optimizers();
  auto found = std::ranges::find(all, name, &optimizer_facts::name);
  return found == all.end() ? nullptr : &*found;
}

} // namespace troupe::config
