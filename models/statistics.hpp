#pragma once
// What a parameter server makes of the running statistics that came with the
// gradients of a step. Plain functions over flat CPU buffers; any thread.

#include "config/settings.hpp"
#include "models/flat_layout.hpp"

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <span>

namespace troupe::models {

/// Fills the statistics of `next` from those behind the gradients: their mean
/// weighted by samples, summed in this order, or by the rule `first` those of
/// the first. A single gradient's are taken as they are. Nothing happens in a
/// layout without statistics.
void merge_statistics(const flat_layout& layout, config::buffers_rule rule,
                      const at::Tensor& next,
                      std::span<const at::Tensor> gradients,
                      std::span<const uint64_t> samples);

} // namespace troupe::models
