#include "actors/shards/piece_sync.hpp"

#include "config/text/one_line.hpp"
#include "messages/error.hpp"

#include <exception>
#include <utility>

namespace troupe {

piece_sync_state::piece_sync_state(pointer self,
                                   std::vector<draft_piece_ptr> pieces)
  : self_(self), pieces_(std::move(pieces)) {
  // nop
}

piece_sync_actor::behavior_type piece_sync_state::make_behavior() {
  return {[this](write_atom) {
    return sync();
  }};
}

caf::result<void> piece_sync_state::sync() try {
  self_->quit();
  for (const auto& piece : std::exchange(pieces_, {}))
    piece->sync();
  return caf::unit;
} catch (const std::exception& err) {
  return caf::make_error(errc::disk, one_line(err));
}

} // namespace troupe
