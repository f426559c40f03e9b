#pragma once
// A check for infinities and NaNs in a tensor, used where a gradient arrives,
// and where gradients are summed by NCCL: one bad gradient must not spoil the
// sum. Stateless; any thread.

#include "messages/payload.hpp"

#include <cstddef>
#include <span>

namespace troupe {

/// Whether all numbers are finite; true for a compressed gradient, whose bytes
/// are not examined. Reads all of the memory once, unless the payload knows the
/// answer.
bool all_finite(const payload& numbers);

/// The same for a part of a tensor.
/// @pre The bytes are whole numbers, aligned.
bool all_finite(std::span<const std::byte> bytes, element_type type);

} // namespace troupe
