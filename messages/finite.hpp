#pragma once

#include "messages/payload.hpp"

namespace troupe {

/// Whether all numbers are finite; true for bytes, which are compressed ones.
/// One pass over the memory.
bool all_finite(const payload& numbers);

} // namespace troupe
