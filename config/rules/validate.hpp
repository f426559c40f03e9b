#pragma once
// The rules between settings, checked once all are known. Rules for a single
// value are checked where it is parsed (schema/rules.hpp). Pure; any thread.

#include "config/sources/resolve.hpp"

namespace troupe::config {

/// Throws `usage_error` when the settings contradict each other, ask for
/// something that this release lacks, or would open a port beyond loopback.
/// Workers and evaluators call it again with the settings of the parameter
/// server.
void validate(const resolved& all);

} // namespace troupe::config
