#pragma once
// The lines of the processes of a launch, with `--log-format json`. Pure, but
// for the time and the name of the host; any thread.

#include <sys/types.h>

#include <string>

namespace troupe::app {

/// A line of the process, or about it: as it is, if it is a JSON object of a
/// node; else in an object that says whose it is.
/// @param name "worker-1", "ps".
std::string json_line_of(const std::string& name, pid_t pid,
                         const std::string& line);

} // namespace troupe::app
