#pragma once
// How the far end of a link asks the parameter server in its peer's name.

#include "messages/interfaces.hpp"

namespace troupe {

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
      [half, id](const caf::error& why) { half->refuse(id, why); });
}

} // namespace troupe
