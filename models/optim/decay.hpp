#pragma once
// Finds the elements of flat weights that are excluded from weight decay. Pure
// functions; any thread.

#include "config/text/settings.hpp"
#include "models/layout/flat_layout.hpp"
#include "models/layout/shard_cuts.hpp"

#include <vector>

namespace troupe::models {

/// The ranges of the excluded parameters, in order; adjacent ones are merged. A
/// normalising layer is one of PyTorch's classes of such layers, or for an
/// unknown class one whose `weight` has one dimension.
std::vector<element_range> without_decay(const flat_layout& layout,
                                         config::decay_exclusion what);

/// The parts of `ranges` that lie in `part`, relative to its first element.
std::vector<element_range> within(const std::vector<element_range>& ranges,
                                  const element_range& part);

} // namespace troupe::models
