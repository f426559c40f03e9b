#pragma once
// Scores for tests.

#include "messages/types.hpp"
#include "tests/support/metrics.hpp"

namespace troupe::testing {

inline score scored(uint64_t step, double accuracy) {
  return {version{step}, found(accuracy), 360, 0.1};
}

} // namespace troupe::testing
