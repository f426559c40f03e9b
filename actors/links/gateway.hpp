#pragma once
// The server's end of a chunked link: assembles gradients, passes them to the
// server, and sends its answers back in chunks. Where a peer's tensors have a
// path of their own, it only ties that path to the actor connection.
//
// An actor beside the parameter server, one for each peer. It ends with the
// peer, and when the peer does not set up its link in time.

#include "actors/links/outgoing.hpp"
#include "messages/interfaces.hpp"
#include "messages/transport/chunked/chunked.hpp"
#include "messages/transport/compression/compression.hpp"

#include <atomic>
#include <map>
#include <memory>
#include <optional>

namespace troupe {

struct gateway_parts {
  parameter_server_actor server;
  coordinator_actor coordinator; ///< Null at shards other than the lead.
  payload_shape expected;        ///< Shape of gradients as received.
  transport::codec_ptr codec{};  ///< Compresses gradients; or null.
  /// The actor that said hello, watched until there is a link; may be null.
  caf::actor_addr caller{};
  /// Seconds that the peer has from its hello to its link. It may load data in
  /// between.
  double patience = 120;
  /// Set to true when the link exists, or never will; may be null.
  std::shared_ptr<std::atomic<bool>> settled{};
};

class gateway_state {
public:
  using pointer = gateway_actor::stateful_pointer<gateway_state>;

  static constexpr const char* name = "troupe.gateway";

  gateway_state(pointer self, gateway_parts parts);

  ~gateway_state();

  gateway_actor::behavior_type make_behavior();

  /// Called with the server's answer.
  void answer(transfer_id id, const release_header& header,
              const payload& weights);
  void answer(transfer_id id, const watch_header& header,
              const payload& weights);
  void refuse(transfer_id id, const caf::error& why);

private:
  struct arrival {
    push_header header;
    transport::chunk_receiver gradient;
  };

  caf::result<coordinator_actor> attach(const link_end_actor& peer);
  caf::result<coordinator_actor> attach(const parameter_server_actor& peer);
  template <class Handle>
  caf::result<coordinator_actor> tie_to(const Handle& peer);
  void settle();
  void expect(transfer_id id, const push_header& header,
              const payload_shape& shape);
  void take(const chunk& piece);
  void hand_over(transfer_id id, const push_header& header,
                 const payload& gradient);
  void break_off(const std::string& why);
  template <class Header, class... Ts>
  void ask(transfer_id id, const Ts&... request);
  void send_weights(transfer_id id, const payload& weights);
  void credit(transfer_id id, uint64_t received);

  auto to_peer() {
    return [this](chunk&& piece) {
      self_->send(peer_, chunk_atom_v, std::move(piece));
    };
  }

  pointer self_;
  gateway_parts parts_;
  link_end_actor peer_;
  caf::disposable late_; ///< Ends this actor if no peer comes.
  std::map<transfer_id, arrival> arriving_;
  outgoing_payloads leaving_;
  transport::unpacker unpacker_;
};

} // namespace troupe
