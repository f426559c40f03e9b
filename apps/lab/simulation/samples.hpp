#pragma once
// Ranges of samples, as the invariant checker describes them. Pure functions.

#include "messages/lease.hpp"

#include <string>

namespace troupe::simulation {

/// "samples 64 to 127 of epoch 2", "... in part 1"
inline std::string text(const lease& x) {
  return "samples " + std::to_string(x.first) + " to " +
         std::to_string(x.first + x.count - 1) + " of epoch " +
         std::to_string(x.epoch) +
         (x.part > 0 ? " in part " + std::to_string(x.part) : "");
}

/// Whether the two have a sample in common.
inline bool overlap(const lease& x, const lease& y) {
  return x.epoch == y.epoch && x.part == y.part &&
         x.first < y.first + y.count && y.first < x.first + x.count;
}

} // namespace troupe::simulation
