#pragma once
// The rules of `--compute external`, where another process computes the
// gradients of a worker. Pure; any thread.

#include "config/sources/resolve.hpp"

namespace troupe::config {

/// Throws `usage_error` when the settings contradict external computation, or
/// contradict each other without it. A part of `validate`.
void check_external(const resolved& all);

/// The same for a worker or an evaluator that has taken over the settings of
/// the parameter server. Throws `usage_error`.
void require_who_computes(const settings& joined);

} // namespace troupe::config
