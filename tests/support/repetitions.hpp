// How often a test does a thing again with other chances.

#pragma once

#include <cstdint>
#include <cstdlib>
#include <string>

namespace troupe::testing {

/// What this variable of the environment says, or else `in_ci`.
inline uint64_t repetitions(const char* variable, uint64_t in_ci) {
  const auto* wish = std::getenv(variable);
  return wish != nullptr ? std::stoull(wish) : in_ci;
}

} // namespace troupe::testing
