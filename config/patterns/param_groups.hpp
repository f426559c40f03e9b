#pragma once
// Groups of parameters with numbers of their own, as `[param-groups]` says it,
// one rule a line: "head.* = lr=0.01", "*.bias norm?.weight = weight-decay=0".
// In one line, as `--param-groups` takes it, rules stand between commas.
// Values; any thread.

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace troupe::config {

/// The numbers that a group has of its own; [training] has the others.
struct group_numbers {
  /// The group's learning rate in place of `lr`; `lr-schedule` changes both
  /// alike.
  std::optional<double> lr;
  std::optional<double> weight_decay;
  std::optional<double> momentum;

  bool operator==(const group_numbers&) const = default;
};

struct param_group_rule {
  /// Names parameters, as key_patterns.hpp says it; several patterns stand
  /// between blanks.
  std::string pattern;
  group_numbers numbers;

  bool operator==(const param_group_rule&) const = default;
};

/// Reads "lr=0.01 weight-decay=0 momentum=0.5", any of them. Throws
/// `bad_value`.
group_numbers parse_group_numbers(std::string_view text);

/// What `parse_group_numbers` reads back.
std::string to_string(const group_numbers& numbers);

/// Throws `bad_value`.
std::vector<param_group_rule> parse_param_groups(std::string_view text);

/// "head.*=lr=0.01,*.bias=weight-decay=0": what `parse_param_groups` reads
/// back.
std::string to_string(const std::vector<param_group_rule>& rules);

/// Whether the rule's pattern matches the parameter of this name.
bool matches(const param_group_rule& rule, const std::string& parameter);

} // namespace troupe::config
