#pragma once
// Groups of parameters, as an optimiser sees them: which numbers of a step
// hold for which elements of flat weights. They come from the layout, where
// `[param-groups]` or the description of a network gave parameters numbers of
// their own, and from the other settings of [training]. Values; any thread.

#include "config/text/settings.hpp"
#include "models/layout/flat_layout.hpp"
#include "models/layout/shard_cuts.hpp"

#include <cstdint>
#include <vector>

namespace troupe::models {

/// The numbers of a step that the parameters of a group share.
struct group_terms {
  double lr_factor = 1; ///< Of the step's learning rate.
  double weight_decay = 0;
  double momentum = 0; ///< Of those optimisers that have one.

  bool operator==(const group_terms&) const = default;
};

/// The elements of one parameter that lie in a range: those from the end of the
/// part before it to `end`.
struct group_part {
  uint64_t end = 0;
  uint32_t parameter = 0; ///< Its number in flat_layout::slots of the whole.
  uint32_t group = 0;     ///< Its number in `terms`.

  bool operator==(const group_part&) const = default;
};

struct parameter_groups {
  std::vector<group_terms> terms;
  std::vector<group_part> parts; ///< In order, without gaps.

  /// Whether they are groups of a range of so many elements.
  bool fit(uint64_t count) const;

  bool operator==(const parameter_groups&) const = default;
};

/// The groups of a network's parameters. `--weight-decay-exclude` is for those
/// that have no decay of their own; a normalising layer is one of PyTorch's
/// classes of such layers, or for an unknown class one whose `weight` has one
/// dimension.
parameter_groups groups_of(const flat_layout& layout,
                           const config::training_settings& settings);

/// The groups of a part of that range, counted from its first element. All
/// terms are there, also those of groups that have no element in it.
parameter_groups within(const parameter_groups& whole,
                        const element_range& part);

} // namespace troupe::models
