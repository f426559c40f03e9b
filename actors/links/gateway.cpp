#include "actors/links/gateway.hpp"

#include "actors/links/server_requests.hpp"
#include "actors/runtime/run_clock.hpp"
#include "messages/protocol.hpp"
#include "messages/transport/wire/socket.hpp"

#include <utility>

namespace troupe {

gateway_state::gateway_state(pointer self, gateway_parts parts)
  : self_(self), parts_(std::move(parts)), unpacker_(parts_.codec) {
  // nop
}

gateway_state::~gateway_state() {
  settle();
}

gateway_actor::behavior_type gateway_state::make_behavior() {
  self_->monitor(parts_.server);
  if (parts_.coordinator)
    self_->monitor(parts_.coordinator);
  self_->set_down_handler([this](const caf::down_msg& down) {
    // It outlives a server that has finished, so that an evaluator learns that
    // the run is over before its link breaks.
    if (down.reason || down.source != parts_.server.address())
      self_->quit();
  });
  if (auto caller = caf::actor_cast<caf::strong_actor_ptr>(parts_.caller))
    self_->monitor(caller);
  late_ = self_->run_delayed(to_timespan(parts_.patience), [this] {
    self_->quit(caf::make_error(
      errc::timed_out, std::string{"the peer said hello and did not come"}));
  });
  return {
    [this](attach_atom, const link_end_actor& peer) { return attach(peer); },
    [this](attach_atom, const parameter_server_actor& peer) {
      return attach(peer);
    },
    [this](push_atom, transfer_id id, const push_header& header,
           const payload_shape& shape) { expect(id, header, shape); },
    [this](pull_atom, transfer_id id, const pull_header& header) {
      ask<release_header>(id, pull_atom_v, header);
    },
    [this](watch_atom, transfer_id id, version after) {
      ask<watch_header>(id, watch_atom_v, after);
    },
    [this](score_atom, const score& found) {
      self_->send(parts_.server, score_atom_v, found);
    },
    [this](chunk_atom, const chunk& piece) { take(piece); },
    [this](credit_atom, transfer_id id, uint64_t received) {
      credit(id, received);
    },
  };
}

caf::result<coordinator_actor>
gateway_state::attach(const link_end_actor& peer) {
  peer_ = peer;
  return tie_to(peer);
}

// Its tensors come on another path.
caf::result<coordinator_actor>
gateway_state::attach(const parameter_server_actor& peer) {
  return tie_to(peer);
}

// A null link could never end.
template <class Handle>
caf::result<coordinator_actor> gateway_state::tie_to(const Handle& peer) {
  if (!peer) {
    break_off("a link that is nobody");
    return caf::make_error(errc::protocol_violation);
  }
  self_->monitor(peer);
  if (auto caller = caf::actor_cast<caf::strong_actor_ptr>(parts_.caller))
    self_->demonitor(caller); // From now on the link reports.
  settle();
  return parts_.coordinator;
}

// The pending timer would keep this actor in memory.
void gateway_state::settle() {
  late_.dispose();
  if (parts_.settled)
    parts_.settled->store(true);
}

// -- gradients ----------------------------------------------------------------

void gateway_state::expect(transfer_id id, const push_header& header,
                           const payload_shape& shape) {
  // A gradient of another size than the model's: no memory is allocated for it,
  // and the server refuses it.
  if (shape != parts_.expected)
    return hand_over(id, header, payload{shape, nullptr, nullptr});
  transport::chunk_receiver gradient{shape};
  if (gradient.complete()) // Empty: no piece will come.
    return hand_over(id, header, std::move(gradient).take());
  if (arriving_.size() == max_pushes_in_flight)
    return break_off("too many gradients at a time");
  arriving_.emplace(id, arrival{header, std::move(gradient)});
}

void gateway_state::take(const chunk& piece) {
  auto found = arriving_.find(piece.transfer);
  if (found == arriving_.end()) // Refused before.
    return;
  auto& gradient = found->second.gradient;
  if (!gradient.accept(piece))
    return break_off("a piece is out of place");
  self_->send(peer_, credit_atom_v, piece.transfer, gradient.received());
  if (!gradient.complete())
    return;
  auto whole = std::move(arriving_.extract(found).mapped());
  hand_over(piece.transfer, whole.header, std::move(whole.gradient).take());
}

void gateway_state::hand_over(transfer_id id, const push_header& header,
                              const payload& gradient) try {
  ask<release_header>(id, push_atom_v, header, unpacker_.unpack(gradient));
} catch (const transport::path_error& err) {
  break_off(err.what());
}

void gateway_state::break_off(const std::string& why) {
  self_->quit(caf::make_error(errc::protocol_violation, why));
}

template <class Header, class... Ts>
void gateway_state::ask(transfer_id id, const Ts&... request) {
  ask_server<Header>(this, self_, parts_.server, id, request...);
}

// -- weights ------------------------------------------------------------------

void gateway_state::answer(transfer_id id, const release_header& header,
                           const payload& weights) {
  self_->send(peer_, release_atom_v, id, header, weights.shape());
  send_weights(id, weights);
}

void gateway_state::answer(transfer_id id, const watch_header& header,
                           const payload& weights) {
  self_->send(peer_, watch_atom_v, id, header, weights.shape());
  send_weights(id, weights);
}

void gateway_state::send_weights(transfer_id id, const payload& weights) {
  leaving_.begin(id, weights, to_peer());
}

void gateway_state::refuse(transfer_id id, const caf::error& why) {
  self_->send(peer_, refuse_atom_v, id, why);
}

void gateway_state::credit(transfer_id id, uint64_t received) {
  if (!leaving_.credit(id, received, to_peer()))
    break_off("impossible credit");
}

} // namespace troupe
