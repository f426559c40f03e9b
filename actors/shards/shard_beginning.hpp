#pragma once

#include "messages/types.hpp"
#include "models/layout/shard_cuts.hpp"

namespace troupe {

/// What a shard in a process of its own begins with.
struct shard_beginning {
  models::element_range range;
  shard_state state;
  payload flat; ///< Its weights, and behind them its slots.
};

} // namespace troupe
