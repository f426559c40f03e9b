#pragma once
// Parses the arguments of trainer_node into the action to take. Called once, by
// main's thread.

#include "config/runs/earlier_run.hpp"
#include "config/sources/resolve.hpp"

#include <span>
#include <string>

namespace troupe::config {

enum class action : uint8_t {
  run,
  replay,        ///< Re-enact an event log; see replay.hpp.
  evaluate,      ///< Score weights; see evaluation.hpp.
  print_config,  ///< Show the values and where each came from.
  check,         ///< Validate and show the plan; start nothing.
  list_networks, ///< The app fills in the text.
  list_datasets, ///< The app fills in the text.
  help,
  version
};

struct invocation {
  resolved config;
  action what = action::run;
  /// What to print, unless it is a run. The app may replace the plan of `check`
  /// when it knows the model's size.
  std::string text;
  /// For a replay: the event log, which holds the other settings.
  std::string tape;
  std::vector<given> given_for_replay;
};

/// Parses `arguments` (without the program's name), the file that they name and
/// the environment variables. Throws `usage_error`. The settings of a run, an
/// evaluation or a check are validated; `--print-config` also shows settings
/// that contradict each other. With `--resume` the settings of the run that
/// `find` returns are included; without `find` there is none.
invocation parse_command_line(std::span<const std::string> arguments,
                              const environment& variables,
                              const run_finder& find = {});

/// The settings that these flags and variables give, for a verb that needs some
/// of them alone: they are not checked against each other. Throws
/// `usage_error`.
resolved read_settings(std::span<const std::string> arguments,
                       const environment& variables);

} // namespace troupe::config
