#pragma once
// How the far end of a link asks the parameter server in its peer's name.

#include "actors/runtime/run_is_over.hpp"
#include "messages/interfaces.hpp"

#include <string>

namespace troupe {

/// What a peer is told of an error. A server that has ended is at the end of
/// its run; had it died, the connection would break with it.
inline caf::error as_told(const caf::error& why) {
  if (why == caf::sec::request_receiver_down || why == caf::sec::broken_promise)
    return run_is_over();
  return why;
}

/// Asks the server; `half` gets what comes of it, as `answer(id, header,
/// weights)` or `refuse(id, error)`. How long that takes is the policy's.
template <class Header, class Half, class Self, class... Ts>
void ask_server(Half* half, Self* self, const parameter_server_actor& server,
                transfer_id id, const Ts&... request) {
  self->request(server, caf::infinite, request...)
    .then(
      [half, id](const Header& header, const payload& weights) {
        half->answer(id, header, weights);
      },
      [half, id](const caf::error& why) { half->refuse(id, as_told(why)); });
}

} // namespace troupe
