#pragma once
// The rules between the settings that say where a node is reached, by what
// nodes know each other, and what may leave the host. Pure; any thread.

#include "config/sources/resolve.hpp"

namespace troupe::config {

/// Throws `usage_error` when they contradict each other, or when others on the
/// network could take part without a word of the user's. A part of `validate`.
void check_network(const resolved& all);

} // namespace troupe::config
