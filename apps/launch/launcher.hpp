#pragma once
// Starts the processes of a launch on their hosts, prefixes what they print,
// starts those again that die, passes signals on, and ends with the run's
// status. Called by main, which has no other thread then.

#include "apps/launch/hosts/host.hpp"
#include "apps/launch/launch_plan.hpp"
#include "config/text/failure.hpp"

#include <memory>
#include <vector>

namespace troupe::app {

using hosts = std::vector<std::unique_ptr<host>>;

/// Throws `run_error` if a process cannot be started at all.
exit_status run_launch(const launch_plan& plan, const hosts& where);

} // namespace troupe::app
