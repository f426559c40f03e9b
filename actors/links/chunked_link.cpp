#include "actors/links/chunked_link.hpp"

#include <utility>

namespace troupe {

chunked_link_state::chunked_link_state(pointer self, gateway_actor gateway,
                                       payload_shape expected)
  : self_(self), gateway_(std::move(gateway)), expected_(expected) {
  // nop
}

chunked_link_actor::behavior_type chunked_link_state::make_behavior() {
  self_->monitor(gateway_);
  self_->set_down_handler([this](const caf::down_msg&) {
    break_off("connection to the parameter server lost");
  });
  return {
    [this](push_atom, const push_header& header, const payload& gradient) {
      return push(header, gradient);
    },
    [this](pull_atom, const pull_header& header) { return pull(header); },
    [this](watch_atom, version after) { return watch(after); },
    [this](score_atom, const score& found) {
      self_->send(gateway_, score_atom_v, found);
    },
    [this](release_atom, transfer_id id, const release_header& header,
           const payload_shape& shape) { expect(id, header, shape); },
    [this](watch_atom, transfer_id id, const watch_header& header,
           const payload_shape& shape) { expect(id, header, shape); },
    [this](refuse_atom, transfer_id id, const caf::error& why) {
      refuse(id, why);
    },
    [this](chunk_atom, const chunk& piece) { take(piece); },
    [this](credit_atom, transfer_id id, uint64_t received) {
      credit(id, received);
    },
  };
}

// -- requests -----------------------------------------------------------------

caf::result<release_header, payload>
chunked_link_state::push(const push_header& header, const payload& gradient) {
  auto answer = self_->make_response_promise<release_header, payload>();
  auto id = open_.add(answer);
  self_->send(gateway_, push_atom_v, id, header, gradient.shape());
  leaving_.begin(id, gradient, to_gateway());
  return answer;
}

caf::result<release_header, payload>
chunked_link_state::pull(const pull_header& header) {
  auto answer = self_->make_response_promise<release_header, payload>();
  self_->send(gateway_, pull_atom_v, open_.add(answer), header);
  return answer;
}

caf::result<watch_header, payload> chunked_link_state::watch(version after) {
  auto answer = self_->make_response_promise<watch_header, payload>();
  self_->send(gateway_, watch_atom_v, open_.add(answer), after);
  return answer;
}

void chunked_link_state::credit(transfer_id id, uint64_t received) {
  if (!leaving_.credit(id, received, to_gateway()))
    break_off("the parameter server granted impossible credit");
}

// -- answers ------------------------------------------------------------------

template <class Header>
void chunked_link_state::expect(transfer_id id, const Header& header,
                                const payload_shape& shape) {
  if (!open_.waits_for(id, header) || shape != expected_)
    return break_off("the parameter server sent weights of another size");
  auto [where, fresh] =
    arriving_.emplace(id, arrival{header, transport::chunk_receiver{shape}});
  if (!fresh)
    return break_off("the parameter server answered twice");
  finish_if_complete(where);
}

void chunked_link_state::take(const chunk& piece) {
  auto found = arriving_.find(piece.transfer);
  if (found == arriving_.end())
    return;
  auto& weights = found->second.weights;
  if (!weights.accept(piece))
    return break_off("the parameter server sent a piece out of place");
  self_->send(gateway_, credit_atom_v, piece.transfer, weights.received());
  finish_if_complete(found);
}

void chunked_link_state::finish_if_complete(arrival_map::iterator which) {
  if (!which->second.weights.complete())
    return;
  auto id = which->first;
  auto done = std::move(arriving_.extract(which).mapped());
  leaving_.forget(id);
  std::visit(
    [&](const auto& header) {
      open_.answer(id, header, std::move(done.weights).take());
    },
    done.header);
}

void chunked_link_state::refuse(transfer_id id, const caf::error& why) {
  leaving_.forget(id);
  arriving_.erase(id);
  open_.refuse(id, why);
}

void chunked_link_state::break_off(const std::string& why) {
  open_.refuse_all(caf::make_error(errc::peer_lost, why));
  self_->quit(caf::make_error(errc::peer_lost, why));
}

} // namespace troupe
