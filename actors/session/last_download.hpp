#pragma once
// Fetches the weights that the run ends with, for the participant of a session
// client that waits for them: asks the server, then downloads them.
//
// A part of a session client's state, called on its thread; not thread-safe.

#include "actors/session/connection_attempts.hpp"
#include "messages/interfaces.hpp"

#include <optional>
#include <vector>

namespace troupe {

class last_download {
public:
  /// Both outlive this part.
  /// @param patience s that the server has until the weights are ready.
  last_download(session_client_actor::pointer self,
                connection_attempts& attempts, double patience)
    : self_(self), attempts_(attempts), patience_(patience) {
    // nop
  }

  /// Fetches them in the current attempt; null: there is no server.
  last_version fetch(const gateway_actor& from, const payload_shape& shape);

  /// Answers the participant with this error, if it waits.
  void refuse(const caf::error& why);

private:
  void download(const gateway_actor& from, const payload_shape& shape,
                version at, const std::vector<push_id>& applied);

  session_client_actor::pointer self_;
  connection_attempts& attempts_;
  double patience_;
  std::optional<
    caf::typed_response_promise<version, std::vector<push_id>, payload>>
    asks_;
};

} // namespace troupe
