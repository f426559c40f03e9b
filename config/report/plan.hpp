#pragma once
// The text of `--check`: the run as it would start. Pure; any thread.

#include "config/report/memory.hpp"
#include "config/sources/resolve.hpp"

#include <optional>
#include <string>

namespace troupe::config {

/// Some ten lines: cluster, policy, batch, limits, addresses, folders. With the
/// size of the `model` also the bytes per worker and step, per shard, and the
/// memory of each role.
std::string plan(const resolved& all,
                 const std::optional<model_size>& model = std::nullopt);

} // namespace troupe::config
