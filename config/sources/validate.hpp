#pragma once
// What must hold between settings, once all are known. What a single value must
// be is checked where it is read.

#include "config/sources/resolve.hpp"

namespace troupe::config {

/// Throws `usage_error` when the settings do not fit together, ask for what
/// this release lacks, or would open a port to strangers. A worker or evaluator
/// calls it again with the settings that it took from the parameter server.
void validate(const resolved& all);

} // namespace troupe::config
