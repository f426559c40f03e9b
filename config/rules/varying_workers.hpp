#pragma once
// The rules for a number of workers that varies (min-workers, max-workers).
// Pure functions; any thread.

#include "config/sources/resolve.hpp"

namespace troupe::config {

/// Throws `usage_error` if the limits contradict each other or the number of
/// workers, or if the number cannot vary with the other settings.
void check_workers(const resolved& all);

} // namespace troupe::config
