// All aggregation policies. To add one to Troupe, write a header and a source
// with its row, and add its name to `in_tree`; the tests in tests/policies find
// it here.

#include "actors/policies/rows.hpp"
#include "actors/policies/staleness_rule.hpp"
#include "config/text/failure.hpp"
#include "config/text/value.hpp"

#include <map>
#include <string>
#include <utility>

namespace troupe::policies {

namespace {

/// In the order of the documentation.
constexpr row (*in_tree[])() = {sync_row,  backup_row,   ssp_row,
                                async_row, buffered_row, quorum_row};

using makers = std::map<std::string, decltype(row::make), std::less<>>;

void add(makers& to, row entry) {
  to.emplace(entry.facts.schema.name, std::move(entry.make));
  config::add_policy(std::move(entry.facts));
}

/// Troupe's policies come first, whatever the order of static initialisation.
makers& table() {
  static makers all = [] {
    makers out;
    for (auto each : in_tree)
      add(out, each());
    return out;
  }();
  return all;
}

/// Makes them known to config before main.
[[maybe_unused]] const auto& known = table();

} // namespace

/// Programs that link the library contain this source although they do not call
/// it (CMakeLists.txt).
extern "C" const char troupe_policies_are_known = 1;

policy::~policy() = default;

register_policy::register_policy(row entry) {
  add(table(), std::move(entry));
}

policy_spec read_spec(std::string_view text, uint32_t workers) {
  const auto& schema = config::find_policy(config::name_of_call(text)).schema;
  return {schema.name, workers, config::read_arguments(schema, text)};
}

std::unique_ptr<policy> make_policy(const policy_spec& spec) try {
  const auto& facts = config::find_policy(spec.name);
  if (facts.object)
    if (auto found = facts.object(spec.parameters, spec.workers))
      throw config::bad_value(found->parameter + " " + found->why);
  auto out = table().at(facts.schema.name)(spec);
  if (spec.staleness.kind == config::staleness_rule_kind::none)
    return out;
  return std::make_unique<with_staleness_rule>(std::move(out), spec.staleness,
                                               spec.workers);
} catch (const config::bad_value& why) {
  throw usage_error("policy " + spec.name + ": " + why.what());
}

} // namespace troupe::policies
