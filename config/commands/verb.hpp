#pragma once
// The command lines of trainer_node's verbs (`data`, `compare`, `calibrate`):
// each is a table of what it takes, and one reader and one help serve all.
//
// Values; any thread.

#include "config/text/call_schema.hpp"

#include <optional>
#include <span>
#include <string>
#include <vector>

namespace troupe::config {

struct verb {
  std::string name;  ///< As it is typed: "data split".
  std::string about; ///< What it does, for the help.
  /// What stands without a flag, in its order. Each has to be given; the help
  /// of one says what it is: "a folder with a data set".
  std::vector<parameter> operands{};
  bool repeats_last = false; ///< The last operand may be given several times.
  std::vector<parameter> flags{};
  bool passes_on = false; ///< Other flags, with their values, are not its own.
};

/// What was typed behind the name of a verb.
struct verb_call {
  std::vector<std::string> operands;
  arguments flags;                 ///< With defaults.
  std::vector<std::string> others; ///< What is passed on.
};

/// Nothing when help is asked for. Throws `usage_error`.
std::optional<verb_call> read_verb(const verb& of,
                                   std::span<const std::string> typed);

/// What `--help` of these verbs prints.
std::string help_of(std::span<const verb> all);

} // namespace troupe::config
