#pragma once
// How the server's end of a link sends a peer's requests to the parameter
// server.
//
// Helpers for gateways and framed gateways, called in those actors.

#include "actors/runtime/run_is_over.hpp"
#include "messages/interfaces.hpp"

#include <string>

namespace troupe {

/// The error as the peer is told of it. A server that has ended is at the end
/// of its run: had it died, the connection would have broken, too.
inline caf::error as_told(const caf::error& why) {
  if (why == caf::sec::request_receiver_down || why == caf::sec::broken_promise)
    return run_is_over();
  return why;
}

/// Sends a request to the server. `half` gets the result, as `answer(id,
/// header, weights)` or `refuse(id, error)`. The policy decides how long that
/// takes.
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
