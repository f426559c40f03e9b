#pragma once
// The published actor, and the first one that a remote peer talks to. It checks
// protocol version and settings, and gives each accepted peer a gateway of its
// own. A peer that says hello and then does not come costs a gateway for a
// limited time, and the number of such gateways is limited.
//
// An actor; one for each parameter server shard that takes remote peers.

#include "actors/control/grants.hpp"
#include "actors/links/framed_gateway.hpp"
#include "actors/recording/peer_names.hpp"
#include "actors/shards/shard_registrar.hpp"
#include "config/runs/description.hpp"
#include "config/values/address.hpp"
#include "messages/interfaces.hpp"
#include "messages/proto/hello.pb.h"
#include "messages/transport/compression/compression.hpp"
#include "messages/transport/nccl/gpu_network.hpp"
#include "messages/transport/shm/shared_memory.hpp"
#include "messages/transport/wire/acceptor.hpp"
#include "models/networks/described.hpp"

#include <atomic>
#include <list>
#include <memory>
#include <string>
#include <vector>

namespace troupe {

/// Where peers open paths of their own, besides the actor connection.
struct path_offers {
  std::shared_ptr<transport::acceptor> acceptor; ///< Null: nowhere.
  bool streams = false;                          ///< Over the network.
  bool same_host = false;                        ///< Over memory that both map.

  bool is_any() const { return acceptor && (streams || same_host); }
};

struct admission_parts {
  config::settings settings;
  config::run_description description; ///< The run, as described to peers.
  models::described_file network;      ///< If it is only described; else empty.
  payload_shape weights; ///< This server's range, as peers exchange it.
  parameter_server_actor server;
  coordinator_actor coordinator; ///< Null at shards other than the lead.
  control::grants_ptr given; ///< To nodes that come in; null: there are none.
  path_offers paths;
  /// Memory for weights that peers on this host may read.
  std::shared_ptr<transport::shared_memory> memory;
  payload_shape whole;             ///< All weights, as evaluators get them.
  uint64_t parameters = 0;         ///< In `weights`; the rest are statistics.
  std::vector<uint64_t> fragments; ///< Elements of `weights` in each; or empty.
  transport::codec_ptr codec;      ///< Compresses gradients; or null.
  payload frozen;         ///< Weights that are not trained; empty if all are.
  module_factory modules; ///< For workers; null: the server has none.
  payload_shape activations;       ///< The largest of them; empty: none.
  transport::gpu_network_ptr gpus; ///< Of the GPU with its tensors; or null.

  // For a lead whose other shards have processes of their own:

  shard_registrar_actor registrar;
  std::shared_ptr<const shard_roster> roster;
  std::vector<uint64_t> shard_counts; ///< Elements of each shard, by rank.
  /// Of these, those in each fragment; or empty.
  std::vector<std::vector<uint64_t>> shard_fragments;
  std::optional<transport::group_id> gpu_group; ///< For sums over NCCL.
  /// Where the run's files lie, for nodes that go on without this one; empty if
  /// none does.
  std::string run_directory;

  /// In a later life of a run of peers, at all its shards: where the nodes are,
  /// by rank. Those of the last ranks may be missing.
  std::vector<config::address> nodes;

  // For peers that have said hello:

  recording::peer_names_ptr names{}; ///< Learns who they are; or null.

  double patience = 120;       ///< s that each has to set up its link.
  size_t most_expected = 1024; ///< Beyond this the oldest is rejected.
};

class admission_state {
public:
  using pointer = admission_actor::stateful_pointer<admission_state>;

  static constexpr const char* name = "troupe.admission";

  admission_state(pointer self, admission_parts parts);

  admission_actor::behavior_type make_behavior();

private:
  /// A peer that has a gateway, but perhaps no link yet.
  struct visitor {
    caf::actor_addr gateway;
    caf::actor_addr caller;
    /// True when the link exists, or never will.
    std::shared_ptr<const std::atomic<bool>> settled;
  };

  using hello_result = caf::result<std::string, caf::strong_actor_ptr>;

  hello_result meet(const std::string& hello);
  hello_result change_policy(const std::string& text, proto::Welcome answer);
  gateway_actor receive(const caf::actor_addr& caller);
  void send_away(const visitor& who);
  bool belongs_elsewhere(const proto::Hello& hello) const;
  std::string name_nodes(proto::Welcome& welcome) const;
  std::string objection(const proto::Hello& hello) const;
  std::string objection_to_operator(const caf::node_id& node) const;
  void let_in(const proto::Hello& hello, proto::Welcome& welcome) const;
  void offer_paths(proto::PathOffer& offer, const gateway_actor& peer);

  pointer self_;
  admission_parts parts_;
  path_listener_actor listener_;
  std::list<visitor> expected_; ///< Oldest first.
};

} // namespace troupe
