#pragma once
// Settings as text that reads back: a run's config.ini, and what
// `--print-config` shows.

#include "config/sources/resolve.hpp"

#include <span>
#include <string>

namespace troupe::config {

/// An INI file that reads back to the same settings. Left out are values that
/// are not set and those of one start only (`resume`, `overwrite`). What was
/// changed since the run began stands in comments.
std::string to_ini(const settings& all, std::span<const change> changes = {});

/// A command line that makes the same run, in a directory of its own: all
/// values that are not the defaults, as flags.
std::string to_command(const settings& all);

/// All values, each with where it came from, as an INI file with comments.
std::string print_config(const resolved& all);

} // namespace troupe::config
