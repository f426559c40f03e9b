#include "actors/admission/admission.hpp"

#include "actors/admission/path_listener.hpp"
#include "actors/links/gateway.hpp"
#include "actors/runtime/spawning.hpp"
#include "config/runs/policy_change.hpp"
#include "config/runs/shared_settings.hpp"
#include "config/text/version.hpp"
#include "messages/protocol.hpp"
#include "messages/run_record.hpp"
#include "messages/transport/wire/meeting.hpp"

#include <algorithm>
#include <utility>

namespace troupe {

namespace {

void add_fragments(const std::vector<uint64_t>& sizes, proto::Welcome& to) {
  to.mutable_fragments()->Assign(sizes.begin(), sizes.end());
}

bool is_shard(const proto::Hello& hello) {
  return hello.role() == "ps";
}

bool is_operator(const proto::Hello& hello) {
  return hello.role() == "operator";
}

/// Why the peer and this server are incompatible; empty when they are not. A
/// policy that the run had until it was changed is no conflict, and only the
/// lead knows which policy there is now.
std::string misfit(const proto::Hello& hello, const config::settings& settings,
                   std::span<const config::change> changes, bool leads) {
  if (hello.protocol() != protocol_version)
    return "protocol version " + std::to_string(hello.protocol()) + " of the " +
           hello.role() + " (troupe " + hello.troupe_version() +
           ") is not the parameter server's " +
           std::to_string(protocol_version) + " (troupe " +
           std::string{config::version()} +
           "); run the same release on all nodes";
  config::pairs explicit_settings;
  for (const auto& one : hello.explicit_())
    if (!config::is_replaced(changes, one.key(), one.value()) &&
        (leads || !config::is_of_policy(one.key())))
      explicit_settings.emplace_back(one.key(), one.value());
  return config::conflicts(settings, explicit_settings);
}

} // namespace

admission_state::admission_state(pointer self, admission_parts parts)
  : self_(self), parts_(std::move(parts)) {
  // nop
}

admission_actor::behavior_type admission_state::make_behavior() {
  self_->monitor(parts_.server);
  self_->set_down_handler([this](const caf::down_msg& down) {
    if (down.source == parts_.server.address())
      self_->quit();
    else if (listener_ && down.source == listener_.address())
      self_->quit(down.reason);
  });
  if (parts_.paths.is_any()) {
    listener_ = spawn<path_listener_actor, path_listener_state>(
      self_->system(), placement::scheduled,
      path_listener_parts{parts_.paths.acceptor, parts_.server, parts_.weights,
                          parts_.memory, parts_.whole, parts_.codec,
                          parts_.parameters * size_of(parts_.weights.type),
                          parts_.gpus, parts_.modules, parts_.activations,
                          !parts_.fragments.empty()});
    self_->monitor(listener_);
  }
  return {[this](const std::string& hello) {
    return meet(hello);
  }};
}

auto admission_state::meet(const std::string& bytes) -> hello_result {
  proto::Hello hello;
  proto::Welcome welcome;
  welcome.set_protocol(protocol_version);
  welcome.set_troupe_version(std::string{config::version()});
  std::string refusal = "the hello cannot be read";
  bool early = false;
  if (hello.ParseFromString(bytes)) {
    auto elsewhere = belongs_elsewhere(hello);
    early = !elsewhere && hello.seeks_lead() && !parts_.coordinator;
    refusal = elsewhere ? name_nodes(welcome)
              : early   ? "it does not lead the run"
                        : objection(hello);
    const auto& caller = self_->current_sender();
    if (refusal.empty() && parts_.given && caller)
      refusal = parts_.given->objection(caller->node(), hello.role());
    if (refusal.empty() && is_operator(hello) && caller)
      refusal = objection_to_operator(caller->node());
  }
  if (refusal.empty() && parts_.roster && !is_shard(hello) &&
      !parts_.roster->all()) {
    refusal = "it waits for " + parts_.roster->missing();
    early = true;
  }
  if (!refusal.empty()) {
    welcome.set_refusal(refusal);
    welcome.set_later(early);
    return {welcome.SerializeAsString(), caf::strong_actor_ptr{}};
  }
  const auto& from = self_->current_sender();
  if (parts_.names && from)
    parts_.names->said(from->node(), hello.name());
  if (is_operator(hello))
    return change_policy(hello.policy(), std::move(welcome));
  let_in(hello, welcome);
  auto ptr = [](const auto& x) {
    return caf::actor_cast<caf::strong_actor_ptr>(x);
  };
  // What it talks to, and what that hands out to it.
  auto inside = ptr(parts_.registrar), behind = ptr(parts_.server);
  if (!is_shard(hello)) {
    auto gateway = receive(from ? from->address() : caf::actor_addr{});
    if (parts_.paths.is_any())
      offer_paths(*welcome.mutable_paths(), gateway);
    inside = ptr(gateway), behind = ptr(parts_.coordinator);
  }
  if (parts_.given && from)
    for (const auto& one : {inside, behind})
      if (one)
        parts_.given->allow(from->node(), one->id());
  return {welcome.SerializeAsString(), inside};
}

// Who joins from now on is told of the new policy. `later`: it may be had at
// another time.
auto admission_state::change_policy(const std::string& text,
                                    proto::Welcome answer) -> hello_result {
  auto asks =
    self_->make_response_promise<std::string, caf::strong_actor_ptr>();
  self_
    ->request(caf::actor_cast<lead_actor>(parts_.server), caf::infinite,
              policy_atom_v, text)
    .then(
      [this, asks, text, answer](version since) mutable {
        auto next = config::with_policy(parts_.settings, text);
        auto momentum = next.training.momentum;
        answer.set_accepted(true);
        answer.set_policy_since(since.value);
        if (momentum != parts_.settings.training.momentum)
          answer.set_momentum(momentum);
        config::take_change(parts_.settings, parts_.description,
                            std::move(next), since.value);
        asks.deliver(answer.SerializeAsString(), caf::strong_actor_ptr{});
      },
      [asks, answer](const caf::error& why) mutable {
        answer.set_refusal(text_of(why));
        answer.set_later(why != errc::settings_conflict);
        asks.deliver(answer.SerializeAsString(), caf::strong_actor_ptr{});
      });
  return asks;
}

// A peer that says hello again has given up its earlier gateway.
gateway_actor admission_state::receive(const caf::actor_addr& caller) {
  std::erase_if(expected_, [&](const visitor& who) {
    auto settled = who.settled->load();
    auto again = !settled && caller && who.caller == caller;
    if (again)
      send_away(who);
    return settled || again;
  });
  if (expected_.size() == parts_.most_expected) {
    send_away(expected_.front());
    expected_.pop_front();
  }
  auto settled = std::make_shared<std::atomic<bool>>(false);
  auto out = spawn<gateway_actor, gateway_state>(
    self_->system(), placement::scheduled,
    gateway_parts{parts_.server, parts_.coordinator,
                  parts_.codec ? parts_.codec->compressed() : parts_.weights,
                  parts_.codec, parts_.frozen, parts_.modules,
                  parts_.activations, caller, parts_.patience, settled,
                  !parts_.fragments.empty()});
  expected_.push_back({out.address(), caller, settled});
  return out;
}

void admission_state::send_away(const visitor& who) {
  if (auto gateway = caf::actor_cast<caf::strong_actor_ptr>(who.gateway))
    self_->send_exit(caf::actor_cast<gateway_actor>(gateway),
                     caf::exit_reason::user_shutdown);
}

// A lead that died while it told the nodes who goes on has told some of them:
// the others have made a list of their own, which may be as long.
bool admission_state::belongs_elsewhere(const proto::Hello& hello) const {
  if (hello.protocol() != protocol_version || !hello.has_address())
    return false;
  const auto& all = parts_.nodes;
  auto mine = std::ranges::find(
    all, config::address{hello.address().host(),
                         static_cast<uint16_t>(hello.address().port())});
  if (mine == all.end())
    return false;
  auto same = mine - all.begin() == hello.rank() &&
              hello.peers() == parts_.settings.cluster.shards;
  // A peer that does not seek the lead takes this node for the lead.
  return !same || (!parts_.registrar && !hello.seeks_lead());
}

std::string admission_state::name_nodes(proto::Welcome& welcome) const {
  for (const auto& one : parts_.nodes) {
    auto* node = welcome.add_nodes();
    node->set_host(one.host);
    node->set_port(one.port);
  }
  welcome.set_peers(parts_.settings.cluster.shards);
  return "the run has gone on with other nodes";
}

std::string admission_state::objection(const proto::Hello& hello) const {
  auto leads = static_cast<bool>(parts_.coordinator);
  const auto& changes = parts_.description.changes;
  if (auto why = misfit(hello, parts_.settings, changes, leads); !why.empty())
    return why;
  if (is_operator(hello))
    return leads ? "" : "it does not lead the run";
  if (!is_shard(hello))
    return {};
  if (!parts_.registrar)
    return "it has no shards in processes of their own: start it with "
           "--rank 0, or leave this one out";
  if (hello.rank() == 0 || hello.rank() >= parts_.settings.cluster.shards)
    return "--rank " + std::to_string(hello.rank()) +
           " does not fit: the run has " +
           std::to_string(parts_.settings.cluster.shards) + " shards";
  return {};
}

// Workers have the token, too.
std::string
admission_state::objection_to_operator(const caf::node_id& node) const {
  auto knows = !parts_.given || parts_.given->has_certificate(node);
  if (knows || parts_.settings.cluster.token_file.empty())
    return {};
  return "a token is not enough for an operator: show a certificate with "
         "--tls-dir, from trainer_node pki issue --role operator";
}

void admission_state::let_in(const proto::Hello& hello,
                             proto::Welcome& welcome) const {
  auto worker = hello.role() == "worker";
  welcome.set_accepted(true);
  put(parts_.description, *welcome.mutable_description());
  welcome.set_network(parts_.network.head);
  welcome.set_network_bytes(parts_.network.bytes);
  welcome.set_server_incarnation(parts_.description.life);
  auto count = (worker ? parts_.weights : parts_.whole).count;
  welcome.set_parameters(is_shard(hello) ? parts_.shard_counts[hello.rank()]
                                         : count);
  welcome.set_region(parts_.whole.count);
  if (!is_shard(hello))
    welcome.set_frozen(parts_.frozen.shape().count);
  if (parts_.codec)
    welcome.set_compressed_parameters(parts_.codec->numbers());
  welcome.set_element_type(static_cast<uint32_t>(parts_.weights.type));
  if (worker)
    welcome.set_activations(parts_.activations.count);
  if (worker)
    add_fragments(parts_.fragments, welcome);
  if (is_shard(hello) && parts_.gpu_group)
    welcome.set_gpu_group(parts_.gpu_group->data(), parts_.gpu_group->size());
  if (!parts_.roster)
    return;
  if (is_shard(hello) && hello.rank() < parts_.shard_fragments.size())
    add_fragments(parts_.shard_fragments[hello.rank()], welcome);
  welcome.set_run_directory(parts_.run_directory);
  if (is_shard(hello)) // It asks the registrar.
    return;
  auto others = parts_.roster->all().value();
  for (const auto& where : others) {
    auto* shard = welcome.add_shards();
    shard->set_host(where.host);
    shard->set_port(where.port);
  }
}

void admission_state::offer_paths(proto::PathOffer& offer,
                                  const gateway_actor& peer) {
  auto token = transport::random_token();
  const auto& paths = parts_.paths;
  if (paths.streams)
    offer.set_stream_port(paths.acceptor->port());
  if (paths.same_host)
    offer.set_shm_name(paths.acceptor->name());
  if (parts_.gpus)
    offer.set_gpu(parts_.gpus->gpu());
  offer.set_token(token);
  self_->send(listener_, enlist_atom_v, std::move(token), peer);
}

} // namespace troupe
