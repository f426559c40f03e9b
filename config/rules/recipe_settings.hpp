#pragma once
// The rules between the settings of a recipe: batches, learning rates, groups
// of parameters, decay, loss and number types. Pure; any thread.

#include "config/sources/resolve.hpp"

namespace troupe::config {

/// Throws `usage_error` when they contradict each other. For who decides for
/// the cluster: nobody else knows all of its settings. A part of `validate`.
void check_recipe(const resolved& all);

} // namespace troupe::config
