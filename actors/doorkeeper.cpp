#include "actors/doorkeeper.hpp"

#include "actors/links/gateway.hpp"
#include "actors/path_listener.hpp"
#include "actors/spawning.hpp"
#include "config/cast.hpp"
#include "config/version.hpp"
#include "messages/protocol.hpp"

#include <utility>

namespace troupe {

namespace {

/// Why the peer is not let in; empty when it is.
std::string objection(const proto::Hello& hello,
                      const config::settings& settings) {
  if (hello.protocol() != protocol_version)
    return "protocol version " + std::to_string(hello.protocol()) + " of the " +
           hello.role() + " (troupe " + hello.troupe_version() +
           ") is not the parameter server's " +
           std::to_string(protocol_version) + " (troupe " +
           std::string{config::version()} +
           "); run the same release on all nodes";
  config::pairs explicit_settings;
  for (const auto& one : hello.explicit_())
    explicit_settings.emplace_back(one.key(), one.value());
  return config::conflicts(settings, explicit_settings);
}

} // namespace

doorkeeper_state::doorkeeper_state(pointer self, doorkeeper_parts parts)
  : self_(self), parts_(std::move(parts)) {
  // nop
}

doorkeeper_state::~doorkeeper_state() {
  if (parts_.reception)
    parts_.reception->close();
}

doorkeeper_actor::behavior_type doorkeeper_state::make_behavior() {
  if (parts_.reception)
    listener_ = spawn<path_listener_actor, path_listener_state>(
      self_->system(), placement::detached,
      path_listener_parts{parts_.reception, parts_.server, parts_.weights,
                          parts_.memory});
  self_->monitor(parts_.server);
  self_->set_down_handler([this](const caf::down_msg&) { self_->quit(); });
  return {[this](const std::string& hello) {
    return meet(hello);
  }};
}

caf::result<std::string, caf::strong_actor_ptr>
doorkeeper_state::meet(const std::string& bytes) {
  proto::Hello hello;
  proto::Welcome welcome;
  welcome.set_protocol(protocol_version);
  welcome.set_troupe_version(std::string{config::version()});
  auto refusal = hello.ParseFromString(bytes)
                   ? objection(hello, parts_.settings)
                   : "the hello cannot be read";
  if (!refusal.empty()) {
    welcome.set_refusal(refusal);
    return {welcome.SerializeAsString(), caf::strong_actor_ptr{}};
  }
  welcome.set_accepted(true);
  welcome.set_run_id(parts_.run_id);
  welcome.set_server_incarnation(parts_.life.value);
  welcome.set_parameters(parts_.weights.count);
  welcome.set_element_type(static_cast<uint32_t>(parts_.weights.type));
  for (auto& [key, value] : config::cast_settings(parts_.settings)) {
    auto* one = welcome.add_settings();
    one->set_key(key);
    one->set_value(value);
  }
  auto gateway = spawn<gateway_actor, gateway_state>(
    self_->system(), placement::scheduled,
    gateway_parts{parts_.server, parts_.coordinator, parts_.weights});
  if (parts_.reception)
    offer_paths(*welcome.mutable_paths(), gateway);
  return {welcome.SerializeAsString(),
          caf::actor_cast<caf::strong_actor_ptr>(gateway)};
}

void doorkeeper_state::offer_paths(proto::PathOffer& offer,
                                   const gateway_actor& peer) {
  auto token = transport::random_token();
  offer.set_stream_port(parts_.reception->port());
  offer.set_shm_name(parts_.reception->name());
  offer.set_token(token);
  self_->send(listener_, enlist_atom_v, std::move(token), peer);
}

} // namespace troupe
