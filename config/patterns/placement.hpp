#pragma once
// Where the parts of a network live, as `[placement]` says it, one rule a line:
// "conv* = ps:0", "fc1 fc2 = ps:1:cuda:0", "head = worker:cuda". In one line,
// as
// `--placement` takes it, rules stand between commas. Values; any thread.

#include "config/text/settings.hpp"

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace troupe::config {

struct placement_rule {
  /// Names modules, as key_patterns.hpp says it for tensors; several patterns
  /// stand between blanks.
  std::string pattern;
  std::optional<uint32_t> server; ///< Rank of the shard; nothing: the worker.
  /// `cpu`, `cuda` (the GPU of the process that computes the part) or
  /// `cuda:N`; empty: what `--device` of that process says.
  std::string device{};

  bool operator==(const placement_rule&) const = default;
};

/// Throws `bad_value`.
std::vector<placement_rule> parse_placement(std::string_view text);

/// "conv*=ps:0,head=worker": what `parse_placement` reads back.
std::string to_string(const std::vector<placement_rule>& rules);

/// Whether parts of the network live on parameter servers, as far as the
/// settings tell: `--mode remote-forward` may leave all with the workers.
bool may_have_modules(const settings& all);

bool matches(const placement_rule& rule, const std::string& module);

} // namespace troupe::config
