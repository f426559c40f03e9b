#pragma once
// How a node asks a remote admission to let it in.
//
// A function that session clients call in their own actor; it returns at once,
// and the answer arrives as a callback on the same actor.

#include "actors/session/connection_attempts.hpp"
#include "config/values/address.hpp"
#include "messages/interfaces.hpp"
#include "messages/proto/hello.pb.h"
#include "messages/transport/wire/meeting.hpp"

#include <functional>
#include <string>

namespace troupe {

/// Seconds for one step of a handshake: a peer that takes longer is not one of
/// ours.
inline constexpr double patience_with_a_peer = 10;

/// The possible outcomes; one of them is called, if the attempt still counts
/// then.
struct handshake_outcomes {
  std::function<void(const proto::Welcome&, const caf::strong_actor_ptr&)>
    welcome = nullptr;
  /// The peer refuses for good. Errors: settings_conflict, protocol_mismatch.
  std::function<void(const caf::error&)> refusal = nullptr;
  /// Nobody answers, or not yet; with the reason.
  std::function<void(const std::string&)> later = nullptr;
  /// The peer wants to know first what bfloat16 does to this node's speed.
  /// Only workers are asked.
  std::function<void(const proto::Welcome&)> measure = nullptr;
  /// The peer still starts, and has done so much for that; `later` follows.
  std::function<void(uint64_t work)> starts = nullptr;
  /// This node is a shard, and the run goes on with other nodes than it
  /// believes.
  std::function<void(const proto::Welcome&)> elsewhere = nullptr;
};

/// Whom a node greets, and what it shows and says.
struct greeting {
  config::address at;
  transport::credentials own;
  proto::Hello hello;
};

/// Starts a handshake in the current attempt. A peer that is lost before it
/// answers has no outcome: the actor's down handler asks `attempts.lost_with`.
void handshake(session_client_actor::pointer self,
               connection_attempts& attempts, const greeting& with,
               const handshake_outcomes& then);

} // namespace troupe
