#include "config/schema/policies.hpp"

#include "config/text/failure.hpp"
#include "config/text/registered.hpp"
#include "config/text/settings.hpp"
#include "config/text/text.hpp"
#include "config/text/value.hpp"

#include <algorithm>
#include <utility>

namespace troupe::config {

namespace {

std::vector<policy_facts>& added() {
  static std::vector<policy_facts> all;
  return all;
}

std::vector<std::string> all_names_of(const policy_facts& facts) {
  auto out = facts.other_names;
  out.insert(out.begin(), facts.schema.name);
  return out;
}

void require_distinct(const std::vector<policy_facts>& all) {
  std::vector<registered_name> names;
  for (const auto& each : all)
    for (const auto& name : all_names_of(each))
      names.push_back({name});
  require_registered("policy", names);
}

} // namespace

void add_policy(policy_facts facts) {
  added().push_back(std::move(facts));
}

const std::vector<policy_facts>& known_policies() {
  static const auto& all = [&]() -> const std::vector<policy_facts>& {
    require_distinct(added());
    return added();
  }();
  return all;
}

std::vector<std::string> policy_names() {
  std::vector<std::string> out;
  for (const auto& each : known_policies())
    out.push_back(each.schema.name);
  return out;
}

const policy_facts& find_policy(std::string_view name) {
  for (const auto& each : known_policies())
    if (spelt(name, all_names_of(each)))
      return each;
  throw bad_value(not_among(name, policy_names()));
}

const std::vector<parameter>& policy_parameters() {
  static const auto all = [] {
    std::vector<parameter> out;
    for (const auto& policy : known_policies())
      for (const auto& each : policy.schema.parameters)
        if (std::ranges::find(out, each.name, &parameter::name) == out.end())
          out.push_back(each);
    return out;
  }();
  return all;
}

const policy_facts& facts_of(const policy_settings& chosen) {
  return find_policy(chosen.name);
}

arguments arguments_of(const policy_settings& chosen) {
  const auto& schema = facts_of(chosen).schema;
  arguments out;
  for (const auto& each : schema.parameters) {
    auto given = chosen.parameters.find(each.name);
    if (given != chosen.parameters.end())
      out.set(each.name, given->second);
  }
  return with_defaults(schema, std::move(out));
}

uint64_t gradients_per_step(const settings& all) {
  return facts_of(all.policy)
    .gradients_per_step(arguments_of(all.policy), all.cluster.workers);
}

std::vector<timed_policy> parse_policy_changes(std::string_view text) {
  std::vector<timed_policy> out;
  while (!trim(text).empty()) {
    auto end = std::min(text.find(';'), text.size());
    auto one = trim(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
    auto blank = std::min(one.find(' '), one.size());
    timed_policy next;
    next.policy = trim(one.substr(blank));
    try {
      next.at = parse<double>(one.substr(0, blank));
    } catch (const bad_value&) {
      next.at = -1;
    }
    if (next.at < 0 || next.at > 1e9 || next.policy.empty())
      throw bad_value("each change is a time in seconds and a policy, as in "
                      "'30 ssp(staleness=3)'");
    read_given(find_policy(name_of_call(next.policy)).schema, next.policy);
    out.push_back(std::move(next));
  }
  return out;
}

} // namespace troupe::config
