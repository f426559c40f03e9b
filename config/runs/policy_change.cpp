#include "config/runs/policy_change.hpp"

#include "config/patterns/param_groups.hpp"
#include "config/rules/validate.hpp"
#include "config/runs/shared_settings.hpp"
#include "config/schema/policies.hpp"
#include "config/sources/ini.hpp"
#include "config/sources/momentum.hpp"
#include "config/text/text.hpp"

#include <algorithm>
#include <utility>
#include <vector>

namespace troupe::config {

namespace {

constexpr std::string_view section = "policy.";

/// The settings that a policy's text stands for.
std::vector<given> settings_of_call(const std::string& text) {
  std::vector<given> out;
  add(out, {&key_of("policy.name"), text, {origin::source::flag, "policy"}});
  return out;
}

/// All parameters get the new momentum.
bool has_momentum_of_groups(const settings& all) {
  auto groups = parse_param_groups(all.training.param_groups);
  return std::ranges::any_of(
    groups, [](const auto& one) { return one.numbers.momentum.has_value(); });
}

} // namespace

std::string call_of(const policy_settings& policy) {
  const auto& schema = facts_of(policy).schema;
  return to_string(schema, arguments_of(policy));
}

policy_settings read_policy(const std::string& text) {
  resolved out;
  for (const auto& one : settings_of_call(text))
    out.set_value(one);
  return out.values.policy;
}

void take_policy(settings& own, std::string_view ini) {
  own.training.momentum_by_workers.reset(); // What is not set is left out.
  for (const auto& entry : parse_ini(ini, "config.ini")) {
    const auto& what = named_key("config.ini", entry.section, entry.key);
    if (is_of_policy(what.id()))
      what.set(own, entry.value);
  }
}

settings with_policy(settings of, const std::string& text) {
  resolved out;
  out.values = of;
  out.values.policy.parameters.clear();
  for (const auto& one : settings_of_call(text))
    out.set_value(one);
  if (of.training.momentum > 0 && !has_momentum_of_groups(of) &&
      with_usual_momentum(of) == of)
    out.values = with_usual_momentum(std::move(out.values));
  validate(out);
  return std::move(out.values);
}

bool is_of_policy(std::string_view id) {
  return id.starts_with(section) || id == "training.momentum" ||
         id == "training.momentum-by-workers" || id == "training.nesterov";
}

void take_change(settings& own, run_description& run, settings next,
                 uint64_t step) {
  for (const auto& each : all_keys()) {
    auto was = each.get(own), is = each.get(next);
    if (is_of_policy(each.id()) && was != is)
      run.changes.push_back({step, run.life, each.id(), was, is, true});
  }
  own = std::move(next);
  run.settings = shared_settings(own);
}

bool is_replaced(std::span<const change> changes, std::string_view id,
                 std::string_view value) {
  auto was = false;
  for (const auto& one : changes)
    if (one.live && one.key == id)
      was = (was || one.before == value) && one.after != value;
  return was;
}

} // namespace troupe::config
