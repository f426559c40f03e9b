#pragma once
// Decides how the server of a launch is started again, on the host that has its
// run directory. Free functions; any thread.

#include "apps/launch/hosts/host.hpp"

#include <filesystem>
#include <map>
#include <string>

namespace troupe::app {

/// The last life in a run's directory, which differs for each; empty if it has
/// none.
std::string life_in(const std::filesystem::path& folder);

/// What a later start adds to the environment of the server. It goes on with
/// its own run, but not if it died before it had one, or if the run is still
/// that which it was told to take over or to remove.
/// @pre `life_before` is known.
std::map<std::string, std::string>
environment_of_restart(const continued_run& run);

} // namespace troupe::app
