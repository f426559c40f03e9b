#pragma once
// Connects to all hosts of a launch at once. For one thread.

#include "apps/launch/ssh/remote_host.hpp"

#include <memory>
#include <span>
#include <string>
#include <vector>

namespace troupe::app {

/// Returns when all hosts are ready. A line says for whom it waits, if it takes
/// long. Throws `run_error` with a line for each host that cannot be used;
/// nothing runs on any of them then.
/// @param luggage Lives as long as the hosts.
std::vector<std::unique_ptr<remote_host>>
connect_hosts(std::span<const listed_host> places,
              const launch_luggage& luggage, const line_taker& say);

} // namespace troupe::app
