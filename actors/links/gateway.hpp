#pragma once
// Stands for the actor connection of one peer at the server: ties the peer's
// link to it, so that both ends of a path end with the connection, and makes
// the server's end for a link whose tensors are sent in chunks. Before that, it
// sends the peer the weights that are not trained, and at the end of the run,
// if the peer asks, the last version of those that are.
//
// An actor beside the parameter server, one for each peer. It ends with the
// peer, and when the peer does not set up its link in time.

#include "actors/links/framed_gateway.hpp"
#include "messages/interfaces.hpp"
#include "messages/transport/chunked/outgoing.hpp"
#include "messages/transport/compression/compression.hpp"

#include <atomic>
#include <cstdint>
#include <memory>
#include <utility>

namespace troupe {

struct gateway_parts {
  parameter_server_actor server;
  coordinator_actor coordinator; ///< Null at shards other than the lead.
  payload_shape expected;        ///< Shape of gradients as received.
  transport::codec_ptr codec{};  ///< Compresses gradients; or null.
  payload frozen{};              ///< Weights that are not trained; or empty.
  module_factory modules{};      ///< Null: the server has none.
  payload_shape activations{};   ///< The largest of them; empty: none.
  /// The actor that said hello, watched until there is a link; may be null.
  caf::actor_addr caller{};
  /// Seconds that the peer has from its hello, or from the last chunk that it
  /// took, to its link. It may load data in between.
  double patience = 120;
  /// Set to true when the link exists, or never will; may be null.
  std::shared_ptr<std::atomic<bool>> settled{};
  bool has_fragments = false; ///< As in path_terms.
};

class gateway_state {
public:
  using pointer = gateway_actor::stateful_pointer<gateway_state>;

  static constexpr const char* name = "troupe.gateway";

  gateway_state(pointer self, gateway_parts parts);

  ~gateway_state();

  gateway_actor::behavior_type make_behavior();

private:
  caf::result<coordinator_actor> attach(const parameter_server_actor& link);
  void open_chunks(const chunk_end_actor& peer);
  caf::result<version, std::vector<push_id>> offer_last();
  void upload(const caf::strong_actor_ptr& to);
  void credit(transfer_id id, uint64_t received);
  void wait_for_peer();
  void stop_waiting();
  void break_off(const std::string& why);

  auto to_download() {
    return [this](chunk&& piece) {
      self_->send(download_, chunk_atom_v, std::move(piece));
    };
  }

  pointer self_;
  gateway_parts parts_;
  caf::disposable late_; ///< Ends this actor if no peer comes.
  bool has_chunks_ = false;
  download_actor download_; ///< Of the peer; null until it asks.
  transport::outgoing_payloads leaving_;
  uint64_t downloaded_ = 0;  ///< Bytes that the peer has taken.
  bool offers_last_ = false; ///< What can be fetched is the run's last version.
};

} // namespace troupe
