#pragma once
// Who gets the version that a run ends with, at a node whose process wants it.
// A value; thread-safe.

#include "messages/error.hpp"
#include "messages/interfaces.hpp"

#include <algorithm>
#include <vector>

namespace troupe {

struct last_weights {
  last_weights_actor to; ///< Null: nobody wants them.
  payload_shape shape;   ///< Of all weights.
  push_id gradient =
    {}; ///< The last one that this node has sent; `seq` 0: none.
};

/// Fetches the last weights through the session client, hands them over, and
/// then calls `then` with how the run has ended; if the weights did not come,
/// its line says so. Fetches nothing if nobody wants them, the run has failed,
/// or its next life goes on.
template <class Self, class F>
void hand_over_last(Self* self, const last_weights& wish,
                    const session_client_actor& session, const run_end& how,
                    F then) {
  if (!wish.to || how.failed() || !how.next.empty())
    return then(how);
  auto without = [how, then](const caf::error& why) {
    auto told = how;
    told.line = "the run's last weights did not come: " + text_of(why);
    then(told);
  };
  self->request(session, caf::infinite, fetch_atom_v, wish.shape)
    .then(
      [self, wish, how, then, without](version last,
                                       const std::vector<push_id>& applied,
                                       const payload& weights) {
        auto is_in = std::ranges::find(applied, wish.gradient) != applied.end();
        self
          ->request(wish.to, caf::infinite, ended_atom_v, last, weights, is_in)
          .then([how, then] { then(how); }, without);
      },
      without);
}

} // namespace troupe
