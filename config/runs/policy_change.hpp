#pragma once
// Another policy for a run that goes on (`trainer_node ctl policy`). All other
// settings stay as they are, but for the momentum where it is the default of
// the policy before: then it is that of the new policy.
//
// Pure functions on plain values; any thread.

#include "config/runs/description.hpp"
#include "config/sources/resolve.hpp"

#include <span>
#include <string>
#include <string_view>

namespace troupe::config {

/// The policy as `--policy` takes it, with all its parameters:
/// "ssp(staleness=3)".
std::string call_of(const policy_settings& policy);

/// Reads a policy that is written in this way; its staleness rule is the
/// default. Throws `usage_error` if there is no such policy.
policy_settings read_policy(const std::string& text);

/// Takes over from the configuration of a run what a change of its policy may
/// have changed. Throws `usage_error` if that is invalid.
void take_policy(settings& own, std::string_view ini);

/// These settings with another policy. A momentum of 0 stays, since the
/// optimiser keeps none then. Throws `usage_error` if the run cannot have the
/// policy.
settings with_policy(settings of, const std::string& text);

/// Whether a change of the policy may change this setting. Only the lead acts
/// on it.
bool is_of_policy(std::string_view id);

/// From this step on the run has the settings `next`: takes them over, and adds
/// what differs to the changes in its description.
void take_change(settings& own, run_description& run, settings next,
                 uint64_t step);

/// Whether the run had this value of a setting until another one replaced it
/// while the run ran. Who gives it means the run as it was, and does not
/// contradict it.
bool is_replaced(std::span<const change> changes, std::string_view id,
                 std::string_view value);

} // namespace troupe::config
