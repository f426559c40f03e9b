#pragma once
// A fully connected layer whose gradients are written straight into the flat
// gradient buffer. Used by networks in `forward`, on the computing thread.

#include "models/gradient_places.hpp"

#include <torch/nn/modules/linear.h>

namespace troupe::models {

/// The output of the layer, with the usual gradients. Backward writes the
/// gradient of a parameter that has a place straight there, and that place
/// itself becomes the gradient: it is replaced, not accumulated.
/// @param inputs [..., in]
/// @returns [..., out]
at::Tensor linear(const at::Tensor& inputs, torch::nn::Linear& layer,
                  const gradient_places& places);

/// The same for the parameters of a layer.
/// @param bias May be undefined.
at::Tensor linear(const at::Tensor& inputs, const at::Tensor& weight,
                  const at::Tensor& bias, const gradient_places& places);

} // namespace troupe::models
