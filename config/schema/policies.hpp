#pragma once
// What settings, plans and reports need to know of an aggregation policy. The
// policies themselves lie in actors/policies; each tells this table about
// itself before `main` begins, those of a user's program like those of Troupe,
// and nothing here or elsewhere lists them.
//
// Adding is not thread-safe and ends when main begins; reading is.

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

/// Why a policy cannot have this value of a parameter.
struct objection {
  std::string parameter;
  std::string why; ///< "must be less than ..."
};

/// Functions get the policy's parameters, defaults included, and the number of
/// workers that the run is to have.
struct policy_facts {
  template <class T>
  using fact = std::function<T(const arguments& of, uint32_t workers)>;

  /// As in `--policy`, with its parameters. Each is a key of [policy] and a
  /// flag, too. Policies that share a name of a parameter share its meaning,
  /// and its default.
  call_schema schema{};
  /// What the field calls it besides; understood, and never printed.
  std::vector<std::string> other_names{};
  /// One sentence for `--check`: who waits for whom.
  fact<std::string> sentence{};
  /// Gradients that make one update of the weights.
  fact<uint64_t> gradients_per_step{};
  /// Older versions that workers may still compute on while the newest is
  /// there.
  fact<uint64_t> versions_behind{};
  /// Not given: every combination that the schema allows will do.
  fact<std::optional<objection>> object{};
  /// Of SGD where none is given. Not given: that of `training_settings`.
  std::function<double(uint32_t workers)> momentum{};
  /// The gradients of a step may be summed on their way to the server (an NCCL
  /// reduction): each step has one gradient of every member, of equal weight.
  bool summable = false;
  /// Largest staleness (in updates) of an applied gradient, so many members
  /// being there while it was computed. Not given: there is no bound.
  std::function<uint64_t(const arguments& of, uint64_t members)> staleness{};
  /// Largest number of its own gradients by which a member may be ahead of the
  /// slowest when it goes on. Not given: there is no bound that counts.
  std::function<uint64_t(const arguments& of)> clocks_ahead{};
  /// How `trainer_node compare` takes it when no policies are named, such as
  /// "ssp:3"; empty: not at all.
  std::string compared_as{};
};

/// A name that is there already, or is none, is a `usage_error` when policies
/// are looked up: before main nobody could catch it.
void add_policy(policy_facts what);

/// All of them, in the order of the documentation.
const std::vector<policy_facts>& known_policies();

std::vector<std::string> policy_names();

/// By its name or another that the field has for it. Throws `bad_value`.
const policy_facts& find_policy(std::string_view name);

/// All parameters of all policies, each name once.
const std::vector<parameter>& policy_parameters();

/// Of the policy that is chosen. @pre Its name is one of the table.
const policy_facts& facts_of(const policy_settings& chosen);

/// Gradients that make one update of the weights.
uint64_t gradients_per_step(const settings& all);

/// Its parameters, with defaults for those that are not given.
arguments arguments_of(const policy_settings& chosen);

} // namespace troupe::config
