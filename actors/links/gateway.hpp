#pragma once
// The far end of a chunked link, beside the parameter server: puts gradients
// together, hands them to the server, and sends its answers back in chunks. One
// for each peer; it ends with the peer, and when the peer does not come. Where
// a peer's tensors have a path of their own, it only ties that path to the
// actor connection.

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
  coordinator_actor coordinator; ///< Nobody at shards besides the lead.
  payload_shape expected;        ///< Shape of gradients as they come.
  transport::codec_ptr codec{};  ///< By which they are compressed; or null.
  /// Whoever said hello, before there is a link; may be nobody.
  caf::actor_addr caller{};
  /// s that the peer has from its hello to its link: it may load data between.
  double patience = 120;
  /// Raised when the link is there, or never will be; may be null.
  std::shared_ptr<std::atomic<bool>> settled{};
};

class gateway_state {
public:
  using pointer = gateway_actor::stateful_pointer<gateway_state>;

  static constexpr const char* name = "troupe.gateway";

  gateway_state(pointer self, gateway_parts parts);

  ~gateway_state();

  gateway_actor::behavior_type make_behavior();

  /// Called with what the server says.
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
  caf::disposable late_; ///< Ends this actor if the peer does not come.
  std::map<transfer_id, arrival> arriving_;
  outgoing_payloads leaving_;
  transport::unpacker unpacker_;
};

} // namespace troupe
