#pragma once
// A version that is assembled from its shards, in the process of the lead.
//
// Passed from the lead to the shard registrar, which fills in the memory;
// nobody reads it until all parts are there.

#include "messages/ids.hpp"

#include <ATen/core/Tensor.h>

#include <vector>

namespace troupe {

struct shard_fetch {
  transfer_id transfer; ///< The number of the transfer.
  /// Flat memory for the whole version; the lead has written its own part.
  at::Tensor weights;
  std::vector<at::Tensor> slots; ///< The same; empty if not wanted.
};

} // namespace troupe
