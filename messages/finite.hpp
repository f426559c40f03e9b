#pragma once
// A check for infinities and NaNs in a tensor, used where gradients are summed
// by NCCL: one bad gradient must not spoil the sum. Stateless; any thread.

#include "messages/payload.hpp"

namespace troupe {

/// Whether all numbers are finite; true for a compressed gradient, whose bytes
/// are not looked at. One pass over the memory.
bool all_finite(const payload& numbers);

} // namespace troupe
