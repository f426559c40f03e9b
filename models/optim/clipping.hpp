#pragma once
// Gradient clipping by norm. Pure functions; any thread.

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <span>

namespace troupe::models {

/// The factor for the mean of these gradients, weighted by shares, that limits
/// its L2 norm to `limit`, as torch.nn.utils.clip_grad_norm_ does. One pass
/// that reads them, in blocks and in order, so that the number of shards does
/// not change the bits.
/// @param gradients Flat float32 or float64 CPU buffers, of which the first
/// `count` elements are used.
/// @throws run_error if sizes or dtypes differ, or there are no samples.
double clip_scale(double limit, std::span<const at::Tensor> gradients,
                  std::span<const double> shares, uint64_t count);

} // namespace troupe::models
