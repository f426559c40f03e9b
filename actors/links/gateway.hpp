#pragma once
// The far end of a chunked link, beside the parameter server: puts gradients
// together, hands them to the server, and sends its answers back in chunks. One
// for each peer; it ends with the peer.

#include "messages/interfaces.hpp"
#include "messages/transport/chunked.hpp"

#include <map>
#include <optional>

namespace troupe {

struct gateway_parts {
  parameter_server_actor server;
  coordinator_actor coordinator;
  payload_shape expected; ///< Shape of weights and gradients.
};

class gateway_state {
public:
  using pointer = gateway_actor::stateful_pointer<gateway_state>;

  static constexpr const char* name = "troupe.gateway";

  gateway_state(pointer self, gateway_parts parts);

  gateway_actor::behavior_type make_behavior();

private:
  struct arrival {
    push_header header;
    transport::chunk_receiver gradient;
  };

  coordinator_actor attach(const link_end_actor& peer);
  void expect(transfer_id id, const push_header& header,
              const payload_shape& shape);
  void take(const chunk& piece);
  void hand_over(transfer_id id, const push_header& header,
                 const payload& gradient);
  void ask_for_weights(transfer_id id, const pull_header& header);
  void ask_for_version(transfer_id id, version after);
  template <class Atom, class Header>
  void answer(Atom what, transfer_id id, const Header& header,
              const payload& weights);
  void refuse(transfer_id id, const caf::error& why);
  void pump(transfer_id id);
  void credit(transfer_id id, uint64_t received);

  pointer self_;
  gateway_parts parts_;
  link_end_actor peer_;
  std::map<transfer_id, arrival> arriving_;
  std::map<transfer_id, transport::chunk_sender> leaving_;
};

} // namespace troupe
