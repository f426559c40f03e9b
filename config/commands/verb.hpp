#pragma once
// The command lines of trainer_node's verbs (`data`, `checkpoint`, `pki`,
// `compare`, `calibrate`): each verb is a table of its operands and flags, and
// one reader and one help serve all of them. Pure functions on plain values;
// any thread.

#include "config/text/call_schema.hpp"

#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace troupe::config {

struct verb {
  std::string name;  ///< As it is typed: "data split".
  std::string about; ///< What it does, for the help.
  /// The operands, in order. Each must be given; its help says what it is: "a
  /// folder with a data set".
  std::vector<parameter> operands{};
  bool repeats_last = false; ///< The last operand may be given several times.
  /// One without a placeholder is a switch: `has` tells whether it was given.
  std::vector<parameter> flags{};
  bool passes_on = false; ///< Unknown flags and their values are passed on.
  std::vector<parameter> repeated{}; ///< Flags that may be given several times.
};

/// What was typed after the name of a verb.
struct verb_call {
  std::vector<std::string> operands;
  arguments flags; ///< With defaults.
  /// By name: the values of flags that may be given several times.
  std::map<std::string, std::vector<std::string>> repeated;
  std::vector<std::string> others; ///< What is passed on.
};

/// Parses the arguments of a verb; nothing when help was asked for. Throws
/// `usage_error`.
std::optional<verb_call> read_verb(const verb& of,
                                   std::span<const std::string> typed);

/// What `--help` of these verbs prints.
std::string help_of(std::span<const verb> all);

/// One of several verbs that begin with the same word.
struct chosen_verb {
  const verb* which = nullptr; ///< Null: `help` is to be printed.
  verb_call call;
  std::string help;
};

/// Parses the arguments after `group`, as in "data": the first one says which
/// verb it is. Throws `usage_error`.
chosen_verb choose_verb(std::string_view group, std::span<const verb> all,
                        std::span<const std::string> typed);

} // namespace troupe::config
