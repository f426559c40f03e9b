#pragma once
// The initial state of a shard in a process of its own. A value: made by the
// lead, sent by the shard registrar.

#include "messages/types.hpp"
#include "models/layout/shard_cuts.hpp"

namespace troupe {

/// The state that a shard in a process of its own starts with.
struct shard_beginning {
  models::element_range range;
  shard_state state;
  payload flat; ///< Its weights, followed by its slots.
};

} // namespace troupe
