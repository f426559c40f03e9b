#pragma once
// The dropout masks that the samples of a batch have. A pure function; any
// thread.

#include "messages/lease.hpp"
#include "models/dropout.hpp"

#include <cstdint>

namespace troupe::models {

/// Keys the dropout masks of a micro-batch that begins at this sample of the
/// lease. They depend on the position in the epoch, and on the part of the data
/// that the lease belongs to.
inline dropout_key dropout_of(uint64_t seed, const lease& from, int64_t first) {
  return {seed + from.part * 0x9e3779b97f4a7c15, from.epoch,
          from.first + static_cast<uint64_t>(first)};
}

} // namespace troupe::models
