#pragma once
// Whether bfloat16 makes the steps of a network faster on this processor:
// found by measuring both, because it depends on the network as much as on the
// processor.
//
// May be called on any thread, and leaves that thread's number of intra-op
// threads alone.

#include "config/text/settings.hpp"

#include <array>
#include <cstdint>

namespace troupe::models {

/// Has this processor instructions for products of bfloat16 (AVX512-BF16 or
/// AMX, or those of Arm)? Without them LibTorch computes them by conversion.
bool has_bfloat16_instructions();

/// The time of a step in the type of the weights over that of a step with
/// `autocast` bf16: medians of alternating steps with drawn samples, forward
/// and backward. Above 1 bfloat16 is faster; 0 without instructions for it, and
/// then nothing is measured. Takes about two seconds, longer only where a step
/// with one sample takes more than half a second. Takes the memory of a worker.
///
/// @param shape C, H, W of a sample.
/// @throws failure if the network cannot be made, or LibTorch fails.
double bfloat16_gain(const config::training_settings& settings,
                     const std::array<uint64_t, 3>& shape, uint64_t classes);

} // namespace troupe::models
