#pragma once
// The rules between the settings of a recipe: batches, learning rates, groups
// of parameters, decay, loss and number types. Pure; any thread.

#include "config/sources/resolve.hpp"

namespace troupe::config {

/// Throws `usage_error` when they contradict each other. Called on the node
/// that decides for the cluster, since no other knows all settings. A part of
/// `validate`.
void check_recipe(const resolved& all);

} // namespace troupe::config
