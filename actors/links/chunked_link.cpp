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
           const payload_shape& shape) {
      exchanges_[id].release = header;
      expect(id, shape);
    },
    [this](watch_atom, transfer_id id, const watch_header& header,
           const payload_shape& shape) {
      exchanges_[id].version = header;
      expect(id, shape);
    },
    [this](refuse_atom, transfer_id id, const caf::error& why) {
      refuse(id, why);
    },
    [this](chunk_atom, const chunk& piece) { take(piece); },
    [this](credit_atom, transfer_id id, uint64_t received) {
      credit(id, received);
    },
  };
}

// -- requests ----------------------------------------------------------------------

auto chunked_link_state::begin(transfer_id& id) -> exchange& {
  id = last_ = last_.next();
  return exchanges_[id];
}

caf::result<release_header, payload>
chunked_link_state::push(const push_header& header, const payload& gradient) {
  transfer_id id;
  auto& out = begin(id);
  out.weights = self_->make_response_promise<release_header, payload>();
  out.outgoing.emplace(id, gradient);
  self_->send(gateway_, push_atom_v, id, header, gradient.shape());
  auto answer = *out.weights;
  pump(id);
  return answer;
}

caf::result<release_header, payload>
chunked_link_state::pull(const pull_header& header) {
  transfer_id id;
  auto& out = begin(id);
  out.weights = self_->make_response_promise<release_header, payload>();
  self_->send(gateway_, pull_atom_v, id, header);
  return *out.weights;
}

caf::result<watch_header, payload> chunked_link_state::watch(version after) {
  transfer_id id;
  auto& out = begin(id);
  out.watch = self_->make_response_promise<watch_header, payload>();
  self_->send(gateway_, watch_atom_v, id, after);
  return *out.watch;
}

void chunked_link_state::pump(transfer_id id) {
  auto& outgoing = exchanges_.at(id).outgoing;
  while (auto piece = outgoing->next())
    self_->send(gateway_, chunk_atom_v, std::move(*piece));
}

void chunked_link_state::credit(transfer_id id, uint64_t received) {
  auto found = exchanges_.find(id);
  if (found == exchanges_.end() || !found->second.outgoing)
    return;
  if (!found->second.outgoing->credit(received))
    return break_off("the parameter server granted impossible credit");
  pump(id);
}

// -- answers -----------------------------------------------------------------------

void chunked_link_state::expect(transfer_id id, const payload_shape& shape) {
  auto found = exchanges_.find(id);
  if (found == exchanges_.end()
      || (!found->second.weights && !found->second.watch)
      || shape != expected_)
    return break_off("the parameter server sent weights of another size");
  found->second.incoming.emplace(shape);
  finish_if_complete(found);
}

void chunked_link_state::take(const chunk& piece) {
  auto found = exchanges_.find(piece.transfer);
  if (found == exchanges_.end() || !found->second.incoming)
    return;
  auto& incoming = *found->second.incoming;
  if (!incoming.accept(piece))
    return break_off("the parameter server sent a piece out of place");
  self_->send(gateway_, credit_atom_v, piece.transfer, incoming.received());
  finish_if_complete(found);
}

void chunked_link_state::finish_if_complete(exchange_map::iterator which) {
  if (!which->second.incoming->complete())
    return;
  auto done = std::move(exchanges_.extract(which).mapped());
  answer(done, std::move(*done.incoming).take());
}

void chunked_link_state::answer(exchange& done, payload weights) {
  if (done.weights)
    done.weights->deliver(std::move(done.release), std::move(weights));
  else
    done.watch->deliver(done.version, std::move(weights));
}

void chunked_link_state::refuse(transfer_id id, const caf::error& why) {
  auto found = exchanges_.find(id);
  if (found == exchanges_.end())
    return;
  auto done = std::move(exchanges_.extract(found).mapped());
  if (done.weights)
    done.weights->deliver(why);
  else if (done.watch)
    done.watch->deliver(why);
}

void chunked_link_state::break_off(const std::string& why) {
  while (!exchanges_.empty())
    refuse(exchanges_.begin()->first, caf::make_error(errc::peer_lost, why));
  self_->quit(caf::make_error(errc::peer_lost, why));
}

} // namespace troupe
