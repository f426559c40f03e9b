#pragma once
// A version that is put together from its shards, in the process of the lead.
// Until all parts are there nobody reads the memory.

#include "messages/ids.hpp"

#include <ATen/core/Tensor.h>

#include <vector>

namespace troupe {

struct shard_fetch {
  transfer_id transfer; ///< That the shards send it by.
  /// Memory for the whole, flat; the lead has written its own part.
  at::Tensor weights;
  std::vector<at::Tensor> slots; ///< The same; empty if they are not wanted.
};

} // namespace troupe
