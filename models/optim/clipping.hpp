#pragma once
// Gradient clipping by norm, as torch.nn.utils.clip_grad_norm_ does it. Pure
// functions; any thread.

#include "models/optim/exact_sum.hpp"

#include <ATen/core/Tensor.h>

#include <span>

namespace troupe::models {

/// The sum of the squares of the mean of these gradients, weighted by shares.
/// One pass that reads them, in blocks that no cut into shards divides
/// (models/layout/shard_cuts.hpp). The sum is exact over blocks, so that the
/// number of shards does not change the bits of the norm.
/// On a GPU it is rounded.
/// @param gradients Flat float32 or float64 buffers.
/// @throws run_error if sizes or dtypes differ, or there are no samples.
exact_sum squares_of_mean(std::span<const at::Tensor> gradients,
                          std::span<const double> shares);

/// The factor that limits a gradient's L2 norm to `limit`.
/// @param squares The sum of the squares of its elements.
double clip_scale(double limit, double squares);

} // namespace troupe::models
