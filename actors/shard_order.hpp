#pragma once
// What the lead tells the other shards of its process: one numbered decision
// after another, which all of them carry out in that order. So a gradient is
// applied on all shards or on none, and what is saved is of one version.
// Immutable once sent.

#include "messages/ids.hpp"

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <optional>
#include <vector>

namespace troupe {

struct shard_order {
  /// One step of the weights. The buffers are of the whole; each shard reads
  /// and writes its own range.
  struct step {
    at::Tensor current;
    at::Tensor next;
    std::vector<push_id> gradients; ///< In the order of the sum.
    std::vector<uint64_t> samples;
    double lr = 0;    ///< Learning rate of this step.
    double scale = 1; ///< Of the mean of the gradients.
  };

  uint64_t number = 0;          ///< 1, 2, ...
  std::vector<push_id> drop;    ///< Gradients to forget.
  std::optional<step> update;   ///< A step to carry out.
  std::vector<at::Tensor> save; ///< To be filled with the optimiser's slots.
};

} // namespace troupe
