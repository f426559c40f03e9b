#pragma once
// What settings, plans and reports need to know about the aggregation policies.
// Each policy of actors/policies, or of a user's program, registers itself in
// this table before `main` begins; there is no other list of them.
//
// Adding is not thread-safe and must end before main begins; afterwards any
// thread may read.

#include "config/text/call_schema.hpp"

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace troupe::config {

struct policy_settings;
struct settings;

/// Why a policy refuses the value of a parameter.
struct objection {
  std::string parameter;
  std::string why; ///< "must be less than ..."
};

/// The facts about one policy. Its functions get the policy's parameters, with
/// defaults, and the number of workers of the run.
struct policy_facts {
  template <class T>
  using fact = std::function<T(const arguments& of, uint32_t workers)>;

  /// Name and parameters, as in `--policy`. Each parameter is also a key of
  /// [policy] and a flag. Policies whose parameters share a name must agree on
  /// its meaning and default.
  call_schema schema{};
  /// Other common names of the policy: understood, but never printed.
  std::vector<std::string> other_names{};
  /// One sentence for `--check`: who waits for whom.
  fact<std::string> sentence{};
  /// Gradients that make one update of the weights.
  fact<uint64_t> gradients_per_step{};
  /// How many versions older than the newest workers may still be computing on.
  fact<uint64_t> versions_behind{};
  /// Checks combinations of parameters. Not given: all that the schema allows
  /// are valid.
  fact<std::optional<objection>> object{};
  /// The default momentum of SGD. Not given: that of `training_settings`.
  std::function<double(uint32_t workers)> momentum{};
  /// The gradients of a step may be summed on their way to the server (an NCCL
  /// reduction): each step has one gradient of every member, of equal weight.
  bool summable = false;
  /// Largest staleness (in updates) of an applied gradient, if there were so
  /// many members while it was computed. Not given: there is no bound.
  std::function<uint64_t(const arguments& of, uint64_t members)> staleness{};
  /// How many gradients a member may be ahead of the slowest one when it
  /// continues. Not given: there is no useful bound.
  std::function<uint64_t(const arguments& of)> clocks_ahead{};
  /// How `trainer_node compare` includes it when no policies are named, for
  /// example "ssp:3"; empty: not at all.
  std::string compared_as{};
};

/// Adds a policy. An invalid or repeated name is reported as a `usage_error`
/// when policies are looked up: before main nobody could catch it.
void add_policy(policy_facts facts);

/// All of them, in the order of the documentation.
const std::vector<policy_facts>& known_policies();

std::vector<std::string> policy_names();

/// The policy of this name, or of one of its other names. Throws `bad_value`.
const policy_facts& find_policy(std::string_view name);

/// The parameters of all policies, each name once.
const std::vector<parameter>& policy_parameters();

/// The facts of the chosen policy. @pre Its name is in the table.
const policy_facts& facts_of(const policy_settings& chosen);

/// Gradients that make one update of the weights.
uint64_t gradients_per_step(const settings& all);

/// A policy that takes over in a virtual run.
struct timed_policy {
  double at = 0;      ///< Virtual seconds since the start.
  std::string policy; ///< As in `--policy`.
};

/// Reads "30 async; 60 ssp(staleness=3)". Throws `bad_value`.
std::vector<timed_policy> parse_policy_changes(std::string_view text);

/// Its parameters, with defaults for those that are not given.
arguments arguments_of(const policy_settings& chosen);

} // namespace troupe::config
