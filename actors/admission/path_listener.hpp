#pragma once
// Accepts the connections of peers that want a path of their own, and starts a
// framed gateway for each that shows a valid token. A token can be used once,
// and only as long as the gateway that issued it lives.
//
// An actor; the acceptor's thread brings it the connections.

#include "actors/links/framed_gateway.hpp"
#include "messages/interfaces.hpp"
#include "messages/transport/compression/compression.hpp"
#include "messages/transport/nccl/gpu_network.hpp"
#include "messages/transport/shm/shared_memory.hpp"
#include "messages/transport/wire/acceptor.hpp"
#include "messages/transport/wire/path.hpp"

#include <map>
#include <memory>
#include <string>
#include <vector>

namespace troupe {

struct path_listener_parts {
  std::shared_ptr<transport::acceptor> acceptor;
  parameter_server_actor server;
  payload_shape weights; ///< For workers; gradients too, unless compressed.
  /// Memory for weights that peers on this host may read; needed if there are
  /// such peers.
  std::shared_ptr<transport::shared_memory> memory;
  /// The shape of weights for evaluators. Sizes the memory for a peer's
  /// gradients, too, where it is the larger one.
  payload_shape whole = {};
  transport::codec_ptr codec{};      ///< Compresses gradients; or null.
  uint64_t parameter_bytes = 0;      ///< Sent after the rest, the statistics.
  transport::gpu_network_ptr gpus{}; ///< For peers that ask for NCCL; or null.
  module_factory modules{};          ///< Null: the server has none.
  payload_shape activations{};       ///< The largest of them; empty: none.
  bool has_fragments = false;        ///< As in path_terms.
};

class path_listener_state {
public:
  using pointer = path_listener_actor::stateful_pointer<path_listener_state>;

  static constexpr const char* name = "troupe.path-listener";

  path_listener_state(pointer self, path_listener_parts parts);

  ~path_listener_state();

  path_listener_actor::behavior_type make_behavior();

private:
  struct guests;

  void expect(const std::string& token, const gateway_actor& peer);
  void forget(const caf::actor_addr& peer);
  void admit(transport::guest who);
  transport::path_ptr path_to(transport::guest who) const;

  pointer self_;
  path_listener_parts parts_;
  std::map<std::string, caf::actor_addr> awaited_; ///< By token.
  std::shared_ptr<guests> guests_;
};

} // namespace troupe
