#pragma once
// Private to config/: what must hold of steps that workers make on their own,
// and of gradients that are stale. Pure; any thread.

#include "config/sources/resolve.hpp"

namespace troupe::config {

/// Refuses a rule about stale gradients that changes nothing, or that the
/// optimiser cannot follow.
void check_staleness_rule(const resolved& all);

/// Refuses what local steps cannot be combined with, and what means nothing
/// without them.
/// @param sets_all Whether this node has the settings of the whole cluster:
/// others do not know who makes which steps.
void check_local_steps(const resolved& all, bool sets_all);

} // namespace troupe::config
