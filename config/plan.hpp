#pragma once
// What `--check` shows: the run as it would start.

#include "config/resolve.hpp"

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace troupe::config {

/// What the settings do not say about the model.
struct model_size {
  uint64_t parameters = 0;
  uint64_t statistics = 0; ///< Of batch normalisation; they travel too.
  std::vector<uint64_t> shard_bytes; ///< Parameters of each shard.
};

/// Some ten lines: cast, policy, batch, limits, addresses, folders. With the
/// size of the `model` also the bytes per worker and step, and per shard.
std::string plan(const resolved& all,
                 const std::optional<model_size>& model = std::nullopt);

} // namespace troupe::config
