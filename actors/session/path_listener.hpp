#pragma once
// Takes the connections of peers that want a path of their own, and gives each
// that shows a good token its far half. A token is good once, and as long as
// the gateway that it was given out with. On a thread of its own, which waits
// for connections; whoever closes the reception ends it, and whoever has mail
// for it nudges the reception.

#include "messages/interfaces.hpp"
#include "messages/transport/compression/compression.hpp"
#include "messages/transport/nccl/collective_coordinator.hpp"
#include "messages/transport/nccl/library.hpp"
#include "messages/transport/shm/shared_memory.hpp"
#include "messages/transport/wire/meeting.hpp"
#include "messages/transport/wire/path.hpp"

#include <map>
#include <memory>
#include <string>
#include <vector>

namespace troupe {

struct path_listener_parts {
  std::shared_ptr<transport::reception> reception;
  parameter_server_actor server;
  payload_shape weights; ///< For workers; of gradients, too, unless compressed.
  /// Where weights lie that peers of this host may read; needed if they come.
  std::shared_ptr<transport::shared_memory> memory;
  /// Of weights for evaluators, and of the memory that a peer's gradients lie
  /// in, where that is more.
  payload_shape whole = {};
  transport::codec_ptr codec{}; ///< By which gradients are compressed; or null.
  uint64_t parameter_bytes = 0; ///< Of weights; what is behind them goes first.
  /// For those who ask for NCCL on a stream; or null.
  transport::nccl::library_ptr nccl{};
  /// With it: where all workers meet; null: each meets the server alone.
  transport::collective_coordinator_ptr collective{};
};

class path_listener_state {
public:
  using pointer = path_listener_actor::stateful_pointer<path_listener_state>;

  static constexpr const char* name = "troupe.path-listener";

  path_listener_state(pointer self, path_listener_parts parts);

  path_listener_actor::behavior_type make_behavior();

private:
  void look();
  void expect(const std::string& token, const gateway_actor& peer);
  void forget(const caf::actor_addr& peer);
  void admit(transport::guest who);
  transport::path_ptr path_to(transport::guest& who) const;

  pointer self_;
  path_listener_parts parts_;
  std::map<std::string, caf::actor_addr> awaited_; ///< By token.
  std::vector<transport::guest> guests_;
};

} // namespace troupe
