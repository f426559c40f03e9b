#pragma once
// Gradients that are too long. Plain functions; any thread.

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <span>

namespace troupe::models {

/// What the mean of these gradients, weighted by shares, is to be multiplied
/// by so that its L2 norm is `limit` at most, as
/// torch.nn.utils.clip_grad_norm_ does. One pass that reads them, in blocks and
/// in order: how many shards there are has no influence on the bits.
/// @param gradients Flat float32 or float64 CPU buffers, of which the first
/// `count` elements are looked at.
/// @throws run_error if sizes or dtypes differ, or there are no samples.
double clip_scale(double limit, std::span<const at::Tensor> gradients,
                  std::span<const double> shares, uint64_t count);

} // namespace troupe::models
