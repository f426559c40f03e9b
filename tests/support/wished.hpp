#pragma once
// Numbers that may be given to a test by whoever runs it: how often it repeats
// something, or its first seed.

#include <cstdint>
#include <cstdlib>
#include <string>

namespace troupe::testing {

/// The number in this environment variable, or else `otherwise`.
inline uint64_t wished(const char* variable, uint64_t otherwise) {
  const auto* wish = std::getenv(variable);
  return wish != nullptr ? std::stoull(wish) : otherwise;
}

} // namespace troupe::testing
