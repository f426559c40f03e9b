#pragma once
// From the arguments of trainer_node to what it is to do.

#include "config/sources/earlier_run.hpp"
#include "config/sources/resolve.hpp"

#include <span>
#include <string>

namespace troupe::config {

enum class action : uint8_t {
  run,
  replay,        ///< Re-enact an event log; see replay.hpp.
  print_config,  ///< Show the values and where each came from.
  check,         ///< Validate and show the plan; start nothing.
  list_networks, ///< The app fills in the text.
  list_datasets, ///< So too.
  help,
  version
};

struct invocation {
  resolved config;
  action what = action::run;
  /// What to print, unless it is a run. The app may make the plan of `check`
  /// again when it knows the model's size.
  std::string text;
  /// Of a replay, whose other settings are on the event log.
  std::string tape;
  std::vector<given> given_for_replay;
};

/// Reads `arguments` (without the program's name), the file that they name and
/// the variables. Throws `usage_error`. What is to be run or checked has been
/// validated; `--print-config` shows settings that do not fit together too.
/// With `--resume` the settings of the run that `find` finds count, too; not
/// given: there is none.
invocation parse_command_line(std::span<const std::string> arguments,
                              const environment& variables,
                              const run_finder& find = {});

} // namespace troupe::config
