#pragma once
// How a node asks an admission elsewhere to let it in.

#include "actors/session/connection_attempts.hpp"
#include "messages/interfaces.hpp"
#include "messages/proto/hello.pb.h"

#include <functional>
#include <string>

namespace troupe {

/// s for one step of a hello: the peer answers at once or is not one of ours.
inline constexpr double patience_with_a_peer = 10;

/// What comes of it; one of them is called, if the attempt still counts then.
struct door_opens {
  std::function<void(const proto::Welcome&, const caf::strong_actor_ptr&)>
    welcome;
  /// Errors: settings_conflict, protocol_mismatch.
  std::function<void(const caf::error&)> refusal;
  /// Why there is nobody, or not yet.
  std::function<void(const std::string&)> later;
};

/// Knocks in this attempt. `patience` in s, for each of two steps.
void handshake(session_client_actor::pointer self,
               connection_attempts& attempts, const std::string& host,
               uint16_t port, double patience, const proto::Hello& hello,
               door_opens then);

} // namespace troupe
