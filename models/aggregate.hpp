#pragma once
// What a parameter server does with gradients before the optimiser's step.
// Plain functions over flat float32 or float64 CPU buffers; any thread.

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <span>

namespace troupe::models {

/// The mean of the gradients, each weighted by its number of samples: the sum
/// of n_i / n * g_i in the given order, in one pass. The order fixes the bits.
/// @param out Scratch of the same size and dtype; untouched if there is only
/// one gradient.
/// @returns the tensor that holds the mean: `out`, or the only gradient.
/// @throws run_error if sizes or dtypes differ, or there are no samples.
const at::Tensor& weighted_mean(const at::Tensor& out,
                                std::span<const at::Tensor> gradients,
                                std::span<const uint64_t> samples);

/// Is there neither NaN nor infinity in `flat`? One read pass that stops
/// within 64 KiB of the first such element.
bool all_finite(const at::Tensor& flat);

} // namespace troupe::models
