#include "actors/session/download.hpp"

#include "actors/runtime/run_clock.hpp"

#include <utility>

namespace troupe {

download_state::download_state(pointer self, double patience)
  : self_(self), patience_(patience) {
  // nop
}

download_actor::behavior_type download_state::make_behavior() {
  self_->set_down_handler([this](const caf::down_msg&) {
    fail(errc::peer_lost, "the connection is lost");
  });
  return {
    [this](fetch_atom, const gateway_actor& from, const payload_shape& shape) {
      return fetch(from, shape);
    },
    [this](chunk_atom, const chunk& piece) { add_piece(piece); },
    [this](tick_atom) { watch(); },
  };
}

caf::result<payload> download_state::fetch(const gateway_actor& from,
                                           const payload_shape& shape) {
  from_ = from;
  arriving_.emplace(shape);
  asks_ = self_->make_response_promise<payload>();
  self_->monitor(from);
  self_->send(from, fetch_atom_v,
              caf::actor_cast<caf::strong_actor_ptr>(self_));
  self_->delayed_send(self_, to_timespan(patience_), tick_atom_v);
  return asks_;
}

void download_state::add_piece(const chunk& piece) {
  if (!arriving_ || !arriving_->accept(piece))
    return fail(errc::protocol_violation, "a piece is out of place");
  self_->send(from_, credit_atom_v, piece.transfer, arriving_->received());
  if (!arriving_->complete())
    return;
  asks_.deliver(
    std::move(*std::exchange(arriving_, std::nullopt)).take_payload());
  self_->quit();
}

void download_state::watch() {
  if (!arriving_ ||
      arriving_->received() == std::exchange(before_, arriving_->received()))
    return fail(errc::timed_out, "the weights do not come");
  self_->delayed_send(self_, to_timespan(patience_), tick_atom_v);
}

void download_state::fail(errc why, const std::string& text) {
  if (asks_.pending())
    asks_.deliver(caf::make_error(why, text));
  self_->quit();
}

} // namespace troupe
