#pragma once
// A version that is assembled from its shards, in the process of the lead.
//
// Passed from the lead to the shard registrar, which fills in what is missing;
// nobody reads it until all parts are there.

#include "messages/ids.hpp"
#include "messages/types.hpp"
#include "models/storage/checkpoint.hpp"

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>

namespace troupe {

/// The lead has written its own part.
struct shard_fetch {
  transfer_id transfer{}; ///< The number of the transfer.
  uint64_t width = 4;     ///< Bytes of a number.
  /// Flat memory for the weights; or undefined, where they go into files.
  at::Tensor weights{};
  at::Tensor average{}; ///< The same for the average of them, if wanted.
  /// The files of a checkpoint; or null.
  std::shared_ptr<models::checkpoint_drafts> files{};
  state_request places{}; ///< In these files.

  /// How many numbers each parameter has in it.
  uint64_t numbers() const {
    return 1 + places.slots.parts.size() + places.average;
  }
};

} // namespace troupe
