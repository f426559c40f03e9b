#pragma once
// How a parameter server merges the running statistics that came with the
// gradients of a step. Pure functions over flat CPU buffers; any thread.

#include "config/text/settings.hpp"

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <span>

namespace troupe::models {

/// Fills the statistics of the next version from those that came with the
/// gradients: their mean weighted by shares, summed in this order, or with the
/// rule `first` those of the first gradient. With a single gradient they are
/// copied. All are contiguous, as behind the parameters, and of the same dtype
/// and size.
void merge_statistics(config::buffers_rule rule, const at::Tensor& next,
                      std::span<const at::Tensor> parts,
                      std::span<const double> shares);

} // namespace troupe::models
