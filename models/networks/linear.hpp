#pragma once
// A fully connected layer whose gradients need no copy.

#include "models/gradient_places.hpp"

#include <torch/nn/modules/linear.h>

namespace troupe::models {

/// What the layer gives for `inputs`, with the same gradients; but backward
/// writes that of a parameter that has a place straight into it, and gives that
/// very tensor as the gradient. So with places a layer may be used once in a
/// forward pass only, and gradients are asked for, not accumulated.
/// @param inputs [n, in]
/// @returns [n, out]
at::Tensor linear(const at::Tensor& inputs, torch::nn::Linear& layer,
                  const gradient_places& places);

} // namespace troupe::models
