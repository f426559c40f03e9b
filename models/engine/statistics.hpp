#pragma once
// How a parameter server merges the running statistics that came with the
// gradients of a step. Pure functions over flat buffers; any thread.

#include "config/text/settings.hpp"

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <span>

namespace troupe::models {

/// Fills the statistics of the next version from those that came with the
/// gradients: their mean weighted by shares, summed in this order, or with the
/// rule `first` those of the first gradient. With a single gradient they are
/// copied. An element that is the same in all of them, bit for bit, stays as it
/// is, so that constants do not drift; one that is not finite in some is the
/// mean of the others. All are contiguous, as behind the parameters, and of the
/// same dtype and size.
void merge_statistics(config::buffers_rule rule, const at::Tensor& next,
                      std::span<const at::Tensor> parts,
                      std::span<const double> shares);

/// Whether `next` is finite wherever `before` is. A statistic may be infinite
/// from the beginning (the range of the values seen so far, or a constant); one
/// that becomes infinite or NaN is a fault. Flat buffers of the same dtype,
/// size and device.
bool stays_finite(const at::Tensor& before, const at::Tensor& next);

} // namespace troupe::models
