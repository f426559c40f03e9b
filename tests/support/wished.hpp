#pragma once
// Numbers that whoever runs a test may give it: how often it does a thing, or
// from which seed on.

#include <cstdint>
#include <cstdlib>
#include <string>

namespace troupe::testing {

/// What this variable of the environment says, or else this number.
inline uint64_t wished(const char* variable, uint64_t otherwise) {
  const auto* wish = std::getenv(variable);
  return wish != nullptr ? std::stoull(wish) : otherwise;
}

} // namespace troupe::testing
