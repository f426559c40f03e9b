#pragma once
// Settings as text that can be read back: a run's config.ini, and the output of
// `--print-config`. Pure functions; any thread.

#include "config/sources/resolve.hpp"

#include <span>
#include <string>

namespace troupe::config {

/// An INI file that reads back to the same settings. Values that are not set
/// and those of one start (`resume`, `overwrite`) are left out. Changes since
/// the run began are listed in comments.
std::string to_ini(const settings& all, std::span<const change> changes = {});

/// A command line that starts the same run in another directory: all values
/// that differ from the defaults, as flags.
std::string to_command(const settings& all);

/// All values, each with where it came from, as an INI file with comments.
std::string print_config(const resolved& all);

} // namespace troupe::config
