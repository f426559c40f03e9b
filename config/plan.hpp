#pragma once
// What `--check` shows: the run as it would start.

#include "config/resolve.hpp"

#include <cstdint>
#include <optional>
#include <string>

namespace troupe::config {

/// Numbers that weights and gradients have.
struct model_size {
  uint64_t parameters = 0;
  uint64_t statistics = 0; ///< Of batch normalisation; they travel too.
};

/// Some ten lines: cast, policy, batch, limits, addresses, folders. With the
/// size of the model also the bytes per worker and step.
std::string plan(const resolved& all,
                 const std::optional<model_size>& model = {});

} // namespace troupe::config
