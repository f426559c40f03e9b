#pragma once
// The link to a parameter server in another process over the actor connection:
// headers travel as messages, payloads in chunks with credit. The other end is
// a gateway.
//
// An actor beside the worker or evaluator; made by its session client.

#include "actors/links/open_requests.hpp"
#include "actors/links/outgoing.hpp"
#include "messages/transport/chunked/chunked.hpp"

#include <map>
#include <optional>
#include <variant>

namespace troupe {

class chunked_link_state {
public:
  using pointer = chunked_link_actor::stateful_pointer<chunked_link_state>;

  static constexpr const char* name = "troupe.chunked-link";

  /// @param expected The shape of the model's weights; no other is accepted.
  chunked_link_state(pointer self, gateway_actor gateway,
                     payload_shape expected);

  chunked_link_actor::behavior_type make_behavior();

private:
  /// Weights that are being received.
  struct arrival {
    std::variant<release_header, watch_header> header;
    transport::chunk_receiver weights;
  };

  using arrival_map = std::map<transfer_id, arrival>;

  caf::result<release_header, payload> push(const push_header& header,
                                            const payload& gradient);
  caf::result<release_header, payload> pull(const pull_header& header);
  caf::result<watch_header, payload> watch(version after);
  void credit(transfer_id id, uint64_t received);

  auto to_gateway() {
    return [this](chunk&& piece) {
      self_->send(gateway_, chunk_atom_v, std::move(piece));
    };
  }

  template <class Header>
  void expect(transfer_id id, const Header& header, const payload_shape& shape);
  void take(const chunk& piece);
  void finish_if_complete(arrival_map::iterator which);
  void refuse(transfer_id id, const caf::error& why);
  void break_off(const std::string& why);

  pointer self_;
  gateway_actor gateway_;
  payload_shape expected_;
  open_requests open_;
  outgoing_payloads leaving_;
  arrival_map arriving_;
};

} // namespace troupe
