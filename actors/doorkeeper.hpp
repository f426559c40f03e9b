#pragma once
// The published actor: the first that a stranger meets. It checks protocol
// version and settings, and lets a peer in to a gateway of its own.

#include "config/settings.hpp"
#include "messages/interfaces.hpp"
#include "messages/proto/hello.pb.h"
#include "messages/transport/meeting.hpp"
#include "messages/transport/shared_memory.hpp"

#include <memory>
#include <string>

namespace troupe {

struct doorkeeper_parts {
  config::settings settings;
  std::string run_id;
  incarnation life; ///< Of the parameter server.
  payload_shape weights;
  parameter_server_actor server;
  coordinator_actor coordinator;
  /// Where peers find paths of their own, besides the actor connection; or
  /// null. Closed with the door.
  std::shared_ptr<transport::reception> reception;
  /// Where weights lie that peers of this host may read.
  std::shared_ptr<transport::shared_memory> memory;
};

class doorkeeper_state {
public:
  using pointer = doorkeeper_actor::stateful_pointer<doorkeeper_state>;

  static constexpr const char* name = "troupe.doorkeeper";

  doorkeeper_state(pointer self, doorkeeper_parts parts);

  ~doorkeeper_state();

  doorkeeper_actor::behavior_type make_behavior();

private:
  caf::result<std::string, caf::strong_actor_ptr>
  meet(const std::string& hello);
  void offer_paths(proto::PathOffer& offer, const gateway_actor& peer);

  pointer self_;
  doorkeeper_parts parts_;
  path_listener_actor listener_;
};

} // namespace troupe
