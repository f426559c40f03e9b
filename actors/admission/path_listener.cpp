#include "actors/admission/path_listener.hpp"

#include "actors/links/framed_gateway.hpp"
#include "actors/links/path_channel.hpp"
#include "actors/runtime/spawning.hpp"
#include "actors/runtime/unexpected.hpp"
#include "messages/protocol.hpp"
#include "messages/transport/registry.hpp"

#include <exception>
#include <mutex>
#include <utility>

namespace troupe {

/// Those that have come and were not looked at yet.
struct path_listener_state::guests {
  std::mutex mutex;
  std::vector<transport::guest> all;

  std::vector<transport::guest> take() {
    std::lock_guard guard{mutex};
    return std::exchange(all, {});
  }
};

path_listener_state::path_listener_state(pointer self,
                                         path_listener_parts parts)
  : self_(self), parts_(std::move(parts)), guests_(std::make_shared<guests>()) {
  on_unexpected(self_, [](const std::string&) {});
}

path_listener_state::~path_listener_state() {
  parts_.acceptor->lead_to(transport::purpose::tensors, nullptr);
}

path_listener_actor::behavior_type path_listener_state::make_behavior() {
  self_->set_down_handler(
    [this](const caf::down_msg& down) { forget(down.source); });
  parts_.acceptor->lead_to(transport::purpose::tensors,
                           [to = caf::actor_cast<caf::weak_actor_ptr>(self_),
                            guests = guests_](transport::guest who) {
                             auto listener = to.lock();
                             if (!listener)
                               return;
                             std::lock_guard guard{guests->mutex};
                             guests->all.push_back(std::move(who));
                             caf::anon_send(
                               caf::actor_cast<path_listener_actor>(listener),
                               tick_atom_v);
                           });
  return {
    [this](enlist_atom, const std::string& token, const gateway_actor& peer) {
      expect(token, peer);
    },
    [this](tick_atom) {
      for (auto& who : guests_->take())
        admit(std::move(who));
    },
  };
}

void path_listener_state::expect(const std::string& token,
                                 const gateway_actor& peer) {
  awaited_.emplace(token, peer.address());
  self_->monitor(peer);
}

void path_listener_state::forget(const caf::actor_addr& peer) {
  std::erase_if(awaited_, [&](const auto& one) { return one.second == peer; });
}

// A peer that is not expected is a stranger: its connection closes when it goes
// out of scope.
void path_listener_state::admit(transport::guest who) try {
  auto found = awaited_.find(who.secret);
  if (found == awaited_.end())
    return;
  auto gateway = caf::actor_cast<caf::strong_actor_ptr>(found->second);
  awaited_.erase(found);
  if (!gateway)
    return;
  who.welcome();
  spawn<path_end_actor, framed_gateway_state>(
    self_->system(), placement::scheduled,
    framed_gateway_parts{parts_.server, caf::actor_cast<gateway_actor>(gateway),
                         make_path_channel(path_to(std::move(who))),
                         parts_.codec, parts_.modules});
} catch (const std::exception&) {
  // The peer has disconnected, or resources are short: it will notice that the
  // connection closes.
}

transport::path_ptr path_listener_state::path_to(transport::guest who) const {
  auto gradients = parts_.codec ? parts_.codec->compressed() : parts_.weights;
  transport::path_terms terms{gradients, max_pushes_in_flight, parts_.whole,
                              parts_.weights, parts_.parameter_bytes};
  terms.checks_numbers = true;
  terms.most_activations = parts_.activations.count;
  terms.has_fragments = parts_.has_fragments;
  auto across = who.same_host ? config::reach::host : config::reach::network;
  transport::path_means means{parts_.memory, parts_.gpus};
  const transport::path_row* best = nullptr;
  for (const auto& row : transport::path_rows()) {
    auto fits = row.facts.across == across && row.far_end &&
                (!row.possible || row.possible(means));
    // The end for NCCL is that of a stream until the peer asks for more.
    if (fits && (!best || row.facts.needs_gpu))
      best = &row;
  }
  if (best == nullptr)
    throw transport::path_error{"no path for this peer"};
  return best->far_end(transport::line_of(std::move(who)), terms, means);
}

} // namespace troupe
