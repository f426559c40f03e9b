#pragma once
// What a parameter server makes of the running statistics that came with the
// gradients of a step. Plain functions over flat CPU buffers; any thread.

#include "config/text/settings.hpp"

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <span>

namespace troupe::models {

/// Fills the statistics of the next version from those that came with the
/// gradients: their mean weighted by shares, summed in this order, or by the
/// rule `first` those of the first. A single gradient's are taken as they are.
/// All are end to end, as behind the parameters, of the same dtype and size.
void merge_statistics(config::buffers_rule rule, const at::Tensor& next,
                      std::span<const at::Tensor> parts,
                      std::span<const double> shares);

} // namespace troupe::models
