#pragma once
// A check for infinities and NaNs in a tensor. Stateless; any thread may call
// it. The parameter server uses it to refuse bad gradients.

#include "messages/payload.hpp"

namespace troupe {

/// Whether all numbers are finite; true for a compressed gradient, whose bytes
/// are not looked at. One pass over the memory.
bool all_finite(const payload& numbers);

} // namespace troupe
