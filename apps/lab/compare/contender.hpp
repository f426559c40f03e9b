#pragma once
// The command line of `trainer_node compare`: which policies to compare, and
// how. Values and pure functions; thread-safe.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace troupe::app {

/// One policy with its parameters, as in `--policies`: `ssp:3`, which is
/// `ssp(staleness=3)`, or `backup:1:cancel`; followed by settings of its own,
/// as in `sync/lr=0.1/momentum=0`.
struct contender {
  std::string label; ///< As given by the user.
  std::string policy;
  std::vector<std::string> flags; ///< For trainer_node.
};

/// How policies are written: "sync, backup:B:drop|cancel, ssp:S, async".
std::string contender_forms();

/// The list that is used when none is given.
std::string usual_contenders();

/// Reads a comma-separated list. Throws `usage_error`.
std::vector<contender> parse_contenders(const std::string& text);

/// The command line of `compare`.
struct comparison_request {
  std::vector<contender> contenders;
  uint64_t seeds = 5;                ///< 1, 2, ..., seeds
  std::optional<std::string> folder; ///< `--train-dir`, for all output.
  bool help = false;
  std::vector<std::string> flags; ///< All other flags, for every run.
};

/// What `compare --help` prints.
std::string comparison_help();

/// Reads what follows `compare`. Throws `usage_error`.
comparison_request parse_comparison(const std::vector<std::string>& arguments);

} // namespace troupe::app
