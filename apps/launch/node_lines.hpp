#pragma once
// Who the processes of a launch are in its lines, with `--log-format json`.
// Pure, but for the time and the name of the host; any thread.

#include "actors/recording/log_lines.hpp"

#include <sys/types.h>

#include <string>

namespace troupe::app {

/// The process of this name: "worker-1", "ps". @param pid 0: not known.
/// @param host Empty: this machine.
recording::log_origin origin_of(const std::string& name, pid_t pid,
                                const std::string& host);

/// A line of the process, or about it: as it is, if it is a JSON object of a
/// node; else in an object that says whose it is.
std::string json_line_of(const recording::log_origin& who,
                         const std::string& line);

} // namespace troupe::app
