#include "actors/links/gateway.hpp"

#include "actors/links/chunk_channel.hpp"
#include "actors/runtime/run_clock.hpp"
#include "actors/runtime/run_is_over.hpp"
#include "actors/runtime/spawning.hpp"

#include <algorithm>
#include <utility>

namespace troupe {

gateway_state::gateway_state(pointer self, gateway_parts parts)
  : self_(self), parts_(std::move(parts)) {
  // nop
}

gateway_state::~gateway_state() {
  stop_waiting();
}

gateway_actor::behavior_type gateway_state::make_behavior() {
  self_->monitor(parts_.server);
  if (parts_.coordinator)
    self_->monitor(parts_.coordinator);
  self_->set_down_handler([this](const caf::down_msg& down) {
    // This actor outlives a server that has finished, so that an evaluator
    // learns that the run is over before its link breaks.
    if (down.reason || down.source != parts_.server.address())
      self_->quit();
  });
  if (auto caller = caf::actor_cast<caf::strong_actor_ptr>(parts_.caller))
    self_->monitor(caller);
  wait_for_peer();
  return {
    [this](attach_atom, const parameter_server_actor& link) {
      return attach(link);
    },
    [this](attach_atom, const chunk_end_actor& peer) { open_chunks(peer); },
    [this](ended_atom) { return offer_last(); },
    [this](fetch_atom, const caf::strong_actor_ptr& to) { upload(to); },
    [this](credit_atom, transfer_id id, uint64_t received) {
      credit(id, received);
    },
  };
}

void gateway_state::wait_for_peer() {
  late_.dispose();
  late_ = self_->run_delayed(to_timespan(parts_.patience), [this] {
    self_->quit(caf::make_error(
      errc::timed_out, std::string{"the peer said hello and did not come"}));
  });
}

// A null link could never end.
caf::result<coordinator_actor>
gateway_state::attach(const parameter_server_actor& link) {
  if (!link) {
    break_off("a link that is nobody");
    return caf::make_error(errc::protocol_violation);
  }
  self_->monitor(link);
  if (auto caller = caf::actor_cast<caf::strong_actor_ptr>(parts_.caller))
    self_->demonitor(caller); // From now on the link reports.
  stop_waiting();
  return parts_.coordinator;
}

void gateway_state::open_chunks(const chunk_end_actor& peer) {
  if (!peer || std::exchange(has_chunks_, true))
    return break_off("a second end for chunks, or one that is nobody");
  spawn<path_end_actor, framed_gateway_state>(
    self_->system(), placement::scheduled,
    framed_gateway_parts{parts_.server, gateway_actor{self_},
                         make_chunk_channel(parts_.expected, peer,
                                            parts_.activations,
                                            parts_.has_fragments),
                         parts_.codec, parts_.modules});
}

caf::result<version, std::vector<push_id>> gateway_state::offer_last() {
  if (!parts_.coordinator || offers_last_) {
    break_off("a question for the last weights that is out of place");
    return caf::make_error(errc::protocol_violation);
  }
  auto asks = self_->make_response_promise<version, std::vector<push_id>>();
  self_->request(parts_.coordinator, caf::infinite, fetch_atom_v)
    .then(
      [this, asks](version number, const std::vector<push_id>& applied,
                   const payload& weights) mutable {
        parts_.frozen = weights;
        offers_last_ = true;
        downloaded_ = 0;
        download_ = download_actor{};
        asks.deliver(number, applied);
      },
      [asks](const caf::error&) mutable { asks.deliver(run_is_over()); });
  return asks;
}

void gateway_state::upload(const caf::strong_actor_ptr& to) {
  if (!to || !parts_.frozen || download_)
    return break_off("a second download, or one of what is not there");
  download_ = caf::actor_cast<download_actor>(to);
  leaving_.begin(transfer_id{0}, parts_.frozen, to_download());
}

// Only progress gives a peer without a link, or one that leaves, more time.
void gateway_state::credit(transfer_id id, uint64_t received) {
  if (!download_ || received > parts_.frozen.shape().bytes() ||
      !leaving_.credit(id, received, to_download()))
    return break_off("credit for what was not sent");
  if (received <= std::exchange(downloaded_, std::max(downloaded_, received)))
    return;
  if (offers_last_)
    self_->send(parts_.coordinator, credit_atom_v);
  else if (!late_.disposed())
    wait_for_peer();
}

// The pending timer would keep this actor in memory.
void gateway_state::stop_waiting() {
  late_.dispose();
  if (parts_.settled)
    parts_.settled->store(true);
}

void gateway_state::break_off(const std::string& why) {
  self_->quit(caf::make_error(errc::protocol_violation, why));
}

} // namespace troupe
