#pragma once
// Writes a shard's piece of a checkpoint and makes it durable. An actor on a
// thread of its own, so that a slow disk never delays the shard, which others
// would take for dead; it ends with its answer.

#include "messages/interfaces.hpp"
#include "messages/payload.hpp"
#include "messages/shards.hpp"

#include <cstdint>

namespace troupe {

/// The state of a shard at one version, and where it belongs.
struct piece_of_state {
  payload numbers;    ///< Weights, then each slot.
  uint64_t first = 0; ///< Parameters of the shards before it.
  state_request places;
};

class piece_writer_state {
public:
  using pointer = piece_writer_actor::stateful_pointer<piece_writer_state>;

  static constexpr const char* name = "troupe.piece-writer";

  piece_writer_state(pointer self, piece_of_state piece);

  piece_writer_actor::behavior_type make_behavior();

private:
  caf::result<bool> write();

  pointer self_;
  piece_of_state what_;
};

} // namespace troupe
