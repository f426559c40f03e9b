#pragma once
// What the shards in processes of their own begin with. Values: made by the
// lead, sent by the shard registrar.

#include "messages/ids.hpp"
#include "messages/types.hpp"
#include "models/layout/shard_cuts.hpp"

#include <functional>
#include <vector>

namespace troupe {

/// The state that one shard starts with.
struct shard_beginning {
  shard_state state;
  payload flat; ///< Its weights, followed by its slots.
};

struct shard_beginnings {
  std::vector<models::element_range> ranges; ///< For ranks 1, 2, ...
  /// Makes the state of one shard when that shard has come, so that only those
  /// that have come need memory. The function holds what all states are made
  /// from, until it is dropped. Throws `run_error` when that cannot be read.
  std::function<shard_beginning(shard_id)> make;
};

} // namespace troupe
