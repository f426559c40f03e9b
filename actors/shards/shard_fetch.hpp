#pragma once
// A version that is assembled from its shards, in the process of the lead.
//
// Passed from the lead to the shard registrar, which fills in what is missing;
// nobody reads it until all parts are there.

#include "messages/ids.hpp"
#include "models/storage/tensor_draft.hpp"

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <cstdint>
#include <memory>

namespace troupe {

struct shard_fetch {
  transfer_id transfer{}; ///< The number of the transfer.
  /// Flat memory for the whole version; the lead has written its own part.
  at::Tensor weights{};
  /// Takes the optimiser's slots, one after the other; null if they are not
  /// wanted. The lead has written its own part.
  std::shared_ptr<models::tensor_draft> slots{};
  size_t slot_count = 0;
  uint64_t slot_bytes = 0; ///< Of one slot, as a whole.
};

} // namespace troupe
