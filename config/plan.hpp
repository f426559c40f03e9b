#pragma once
// What `--check` shows: the run as it would start.

#include "config/resolve.hpp"

#include <cstdint>
#include <optional>
#include <string>

namespace troupe::config {

/// Some ten lines: cast, policy, batch, limits, addresses, folders. With the
/// number of the model's `parameters` also the bytes per worker and step.
std::string plan(const resolved& all,
                 std::optional<uint64_t> parameters = std::nullopt);

} // namespace troupe::config
