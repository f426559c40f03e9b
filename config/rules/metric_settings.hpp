#pragma once
// The rules of settings that name a metric. Pure; any thread.

#include "config/sources/resolve.hpp"

namespace troupe::config {

/// Throws `usage_error` when two settings name a target, or when one names a
/// metric that nobody will find. A part of `validate`.
void check_metrics(const resolved& all);

} // namespace troupe::config
