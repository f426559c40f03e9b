#pragma once
// The mean of gradients that lie on a GPU, and what is asked of them before a
// step: as aggregate.hpp and clipping.hpp have it for the CPU. What is not a
// tensor is read back, which waits for the current stream. Any thread.

#include <ATen/core/Tensor.h>

#include <span>

namespace troupe::models {

/// The mean of gradients weighted by shares, summed in this order, times
/// `scale`. The only gradient itself where nothing is to be multiplied.
/// @throws run_error as blocked_mean does.
at::Tensor mean_on_device(std::span<const at::Tensor> gradients,
                          std::span<const double> shares, double scale = 1);

/// The sum of the squares of a tensor's elements, to the rounding of its type.
double squares_on_device(const at::Tensor& x);

/// The largest magnitude, a number of the device; NaN if one is.
at::Tensor largest_on_device(const at::Tensor& x);

/// Whether all numbers are finite: one pass that reads them.
bool all_finite_on_device(const at::Tensor& x);

} // namespace troupe::models
