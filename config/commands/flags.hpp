#pragma once
// Private to config/: the command line as flags and values, in its order.
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

/// A flag that is no key.
struct start_flag {
  std::string name;  ///< Without dashes.
  std::string value; ///< What stands for the value in the help; empty: none.
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
  bool list_networks = false;
  bool list_datasets = false;
  bool help = false;
  bool version = false;
};

/// Throws `usage_error` that names the flag, and the nearest one for a flag
/// that there is not.
command_line read_flags(std::span<const std::string> arguments);

} // namespace troupe::config
