#pragma once
// Metrics in the frames of a process that computes. Pure; any thread.

#include "actors/user_process/frames.hpp"
#include "config/values/metrics.hpp"

#include <string>

namespace troupe::external {

/// The metrics that come next: their number (u32), then text and f64 for each.
/// Throws a `run_error` about `who` when there are too many, or a name is not
/// valid. Whether the body was too short, `in` tells.
config::metrics read_metrics(body_reader& in, const std::string& who);

} // namespace troupe::external
