#pragma once
// What a launch takes along to other hosts, and what it says of them. Free
// functions, called by main's thread.

#include "apps/launch/launch_plan.hpp"
#include "apps/launch/ssh/remote_host.hpp"

#include <filesystem>
#include <span>
#include <string>
#include <vector>

namespace troupe::app {

/// Throws `usage_error` if a file is not there.
/// @param secrets Those that are made later go along, too.
launch_luggage pack_luggage(const launch_call& call,
                            const run_secrets& secrets);

/// A line for each host: where its processes work, and which they are.
std::vector<std::string>
describe_hosts(std::span<const listed_host> hosts, const launch_plan& plan,
               std::span<const std::filesystem::path> folders);

} // namespace troupe::app
