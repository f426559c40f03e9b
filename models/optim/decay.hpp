#pragma once
// Which elements of flat weights have no weight decay. Plain arithmetic; any
// thread.

#include "config/text/settings.hpp"
#include "models/layout/flat_layout.hpp"
#include "models/layout/shard_cuts.hpp"

#include <vector>

namespace troupe::models {

/// The parameters that are excluded, in order; neighbours are one range. A
/// normalising layer is one of PyTorch's classes of such layers; of other
/// classes, one whose `weight` has one dimension.
std::vector<element_range> without_decay(const flat_layout& layout,
                                         config::decay_exclusion what);

/// What of `ranges` lies in `part`, counted from its first element.
std::vector<element_range> within(const std::vector<element_range>& ranges,
                                  const element_range& part);

} // namespace troupe::models
