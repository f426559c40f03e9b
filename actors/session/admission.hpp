#pragma once
// The published actor: the first that a stranger meets. It checks protocol
// version and settings, and lets a peer in to a gateway of its own. Whoever
// says hello and does not come costs a gateway for a while, and no more than so
// many.

#include "actors/shards/shard_registrar.hpp"
#include "config/sources/description.hpp"
#include "messages/interfaces.hpp"
#include "messages/proto/hello.pb.h"
#include "messages/transport/compression/compression.hpp"
#include "messages/transport/nccl/collective_coordinator.hpp"
#include "messages/transport/nccl/library.hpp"
#include "messages/transport/shm/shared_memory.hpp"
#include "messages/transport/wire/meeting.hpp"

#include <atomic>
#include <list>
#include <memory>
#include <string>
#include <vector>

namespace troupe {

struct admission_parts {
  config::settings settings;
  config::run_description description; ///< Of the run, as peers are told.
  payload_shape weights; ///< That come from this server, and gradients to it.
  parameter_server_actor server;
  coordinator_actor coordinator; ///< Nobody at shards besides the lead.
  /// Where peers find paths of their own, besides the actor connection; or
  /// null. Closed with the door.
  std::shared_ptr<transport::reception> reception;
  /// Where weights lie that peers of this host may read.
  std::shared_ptr<transport::shared_memory> memory;
  payload_shape whole;     ///< All weights, which evaluators get.
  uint64_t parameters = 0; ///< Of `weights`; running statistics are the rest.
  transport::codec_ptr codec; ///< By which gradients are compressed; or null.
  transport::nccl::library_ptr nccl; ///< For those who ask for it; or null.
  transport::collective_coordinator_ptr
    collective; ///< With it, for all of them; or null.

  // Of a lead whose other shards have processes of their own:

  shard_registrar_actor registrar;
  std::shared_ptr<const shard_roster> roster;
  std::vector<uint64_t> shard_counts; ///< Elements of each, by rank.

  // Of peers that have said hello:

  double patience = 120;       ///< s that each has until its link is there.
  size_t most_expected = 1024; ///< The oldest is sent away for one more.
};

class admission_state {
public:
  using pointer = admission_actor::stateful_pointer<admission_state>;

  static constexpr const char* name = "troupe.admission";

  admission_state(pointer self, admission_parts parts);

  ~admission_state();

  admission_actor::behavior_type make_behavior();

private:
  /// Has a gateway, and perhaps no link yet.
  struct visitor {
    caf::actor_addr gateway;
    caf::actor_addr caller;
    /// There is a link, or there will be none.
    std::shared_ptr<const std::atomic<bool>> settled;
  };

  caf::result<std::string, caf::strong_actor_ptr>
  meet(const std::string& hello);
  gateway_actor receive(const caf::actor_addr& caller);
  void send_away(const visitor& who);
  std::string objection(const proto::Hello& hello) const;
  void let_in(const proto::Hello& hello, proto::Welcome& welcome) const;
  void offer_paths(proto::PathOffer& offer, const gateway_actor& peer);

  pointer self_;
  admission_parts parts_;
  path_listener_actor listener_;
  std::list<visitor> expected_; ///< The oldest first.
};

} // namespace troupe
