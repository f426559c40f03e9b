#pragma once
// Makes a shard's pieces of a checkpoint durable. An actor on a thread of its
// own, so that a slow disk never delays the shard; it ends with its answer.

#include "messages/interfaces.hpp"
#include "models/storage/tensor_draft.hpp"

#include <memory>
#include <vector>

namespace troupe {

using draft_piece_ptr = std::shared_ptr<models::draft_piece>;

class piece_sync_state {
public:
  using pointer = piece_sync_actor::stateful_pointer<piece_sync_state>;

  static constexpr const char* name = "troupe.piece-sync";

  piece_sync_state(pointer self, std::vector<draft_piece_ptr> pieces);

  piece_sync_actor::behavior_type make_behavior();

private:
  caf::result<void> sync();

  pointer self_;
  std::vector<draft_piece_ptr> pieces_;
};

} // namespace troupe
