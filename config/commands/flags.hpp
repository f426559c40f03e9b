#pragma once
// Private to config/: splits the command line into flags and values, in order.
// Called once, by main's thread.
//
// `--flag value`, `--flag=value`; a flag that may stand alone (`--overwrite`,
// `--resume`) takes the next word for its value unless that begins with `--`.
// When a setting is given again, the last one counts.

#include "config/sources/resolve.hpp"

#include <optional>
#include <span>
#include <string>
#include <vector>

namespace troupe::config {

/// A flag that is not a setting.
struct start_flag {
  std::string name;  ///< Without dashes.
  std::string value; ///< The value's placeholder; empty: takes none.
  std::string help;
};

std::span<const start_flag> start_flags();

struct command_line {
  std::optional<role> what; ///< Of `--role` or `--simulate`.
  std::optional<std::string> file;
  std::optional<std::string> replay; ///< An event log.
  std::vector<given> keys;           ///< Of flags and `--set`.
  std::vector<given> changes;        ///< Of `--change`.
  bool print_config = false;
  bool check = false;
  bool evaluate = false;
  bool list_networks = false;
  bool list_datasets = false;
  bool help = false;
  bool version = false;
};

/// Throws a `usage_error` that names the flag, and for an unknown flag the
/// closest known one.
command_line read_flags(std::span<const std::string> arguments);

} // namespace troupe::config
