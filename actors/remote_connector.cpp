#include "actors/connector.hpp"
#include "actors/links/chunked_link.hpp"
#include "actors/links/framed_link.hpp"
#include "actors/spawning.hpp"
#include "config/failure.hpp"

#include <caf/io/middleman.hpp>

#include <algorithm>
#include <cstdio>
#include <set>
#include <utility>

namespace troupe {

namespace {

/// s for one step of a hello: the peer answers at once or is not one of ours.
constexpr double patience = 10;

void say(const std::string& line) {
  std::puts(line.c_str());
  std::fflush(stdout);
}

} // namespace

remote_connector_state::remote_connector_state(pointer self,
                                               remote_connector_parts parts)
  : self_(self), parts_(std::move(parts)), clock_(self),
    attempts_(parts_.connect_timeout, parts_.jitter_seed),
    paths_(parts_.transport, parts_.memory, say) {
  // nop
}

connector_actor::behavior_type remote_connector_state::make_behavior() {
  self_->set_down_handler([this](const caf::down_msg& down) {
    if (!link_ || down.source != link_.address())
      return;
    look_at_path(down.reason);
    lost();
  });
  connect();
  return {
    [this](connect_atom) {
      if (!attempts_.under_way())
        lost();
    },
    [this](tick_atom) { connect(); },
    [this](ended_atom, const run_end& how) { end(how); },
  };
}

// -- the way in ---------------------------------------------------------------

void remote_connector_state::connect() {
  attempts_.begin();
  self_
    ->request(self_->system().middleman().actor_handle(),
              to_timespan(std::min(patience, parts_.connect_timeout)),
              caf::connect_atom_v, parts_.host, parts_.port)
    .then(in_this_attempt([this](const caf::node_id&,
                                 const caf::strong_actor_ptr& ptr,
                                 const std::set<std::string>& interface) {
            auto& system = self_->system();
            if (!ptr || !system.assignable(
                          interface, system.message_types<doorkeeper_actor>()))
              refused(caf::make_error(
                errc::protocol_mismatch,
                std::string{"the peer there is no parameter server"}));
            else
              greet(caf::actor_cast<doorkeeper_actor>(ptr));
          }),
          in_this_attempt(
            [this](const caf::error&) { retry("nobody answers there"); }));
}

void remote_connector_state::greet(const doorkeeper_actor& door) {
  self_->request(door, to_timespan(patience), parts_.hello.SerializeAsString())
    .then(
      in_this_attempt([this](const std::string& bytes,
                             const caf::strong_actor_ptr& gateway) {
        proto::Welcome welcome;
        if (!welcome.ParseFromString(bytes))
          refused(caf::make_error(errc::protocol_mismatch,
                                  std::string{"the welcome cannot be read"}));
        else if (!welcome.accepted() || !gateway)
          refused(caf::make_error(errc::settings_conflict, welcome.refusal()));
        else
          enter(welcome, caf::actor_cast<gateway_actor>(gateway));
      }),
      in_this_attempt([this](const caf::error& why) { retry(text_of(why)); }));
}

void remote_connector_state::enter(const proto::Welcome& welcome,
                                   const gateway_actor& gateway) try {
  if (!performer_)
    performer_ = parts_.make(welcome, connector_actor{self_});
  payload_shape shape{static_cast<element_type>(welcome.element_type()),
                      welcome.parameters()};
  tie(gateway, shape, paths_.connect(welcome.paths(), parts_.host, {shape}));
} catch (const failure& err) {
  end({static_cast<uint8_t>(err.status()), err.what()});
} catch (const transport::path_error& err) {
  retry(err.what());
}

void remote_connector_state::tie(const gateway_actor& gateway,
                                 const payload_shape& weights,
                                 transport::path_ptr way) {
  path_ = way ? way->name() : "chunked";
  if (way)
    attach<parameter_server_actor>(gateway,
                                   spawn<framed_link_actor, framed_link_state>(
                                     self_->system(), placement::scheduled,
                                     gateway, std::move(way), weights));
  else
    attach<link_end_actor>(
      gateway, spawn<chunked_link_actor, chunked_link_state>(
                 self_->system(), placement::scheduled, gateway, weights));
}

template <class LinkEnd, class Link>
void remote_connector_state::attach(const gateway_actor& gateway,
                                    const Link& link) {
  link_ = link;
  self_->monitor(link);
  self_->request(gateway, to_timespan(patience), attach_atom_v, LinkEnd{link})
    .then(in_this_attempt([this](const coordinator_actor& coordinator) {
            std::visit([&](const auto& who) { seat(who, coordinator); },
                       *performer_);
          }),
          in_this_attempt([this](const caf::error&) { lost(); }));
}

void remote_connector_state::seat(const worker_actor& who,
                                  const coordinator_actor& coordinator) {
  registration_request wish{parts_.rank.has_value(),
                            parts_.rank.value_or(worker_id{0}), path_};
  self_->request(coordinator, to_timespan(patience), register_atom_v, wish, who)
    .then(in_this_attempt([this, who](const registration& as) {
            seated("as worker " + to_string(as.worker));
            self_->send(who, attach_atom_v, link_, as);
          }),
          in_this_attempt([this](const caf::error& why) { refused(why); }));
}

void remote_connector_state::seat(const evaluator_actor& who,
                                  const coordinator_actor& coordinator) {
  self_->request(coordinator, to_timespan(patience), register_atom_v, who)
    .then(in_this_attempt([this, who](incarnation) {
            seated("as evaluator");
            self_->send(who, attach_atom_v, link_);
          }),
          in_this_attempt([this](const caf::error& why) { refused(why); }));
}

void remote_connector_state::seated(const std::string& as) {
  attempts_.succeeded();
  say("connected    to " + address() + " " + as + " over " + path_);
}

// -- and out ------------------------------------------------------------------

void remote_connector_state::lost() {
  drop_link();
  if (performer_)
    tell(self_, *performer_, detach_atom_v);
  retry("the connection is lost");
}

// A link whose path breaks by itself, and not with its connection, says so.
void remote_connector_state::look_at_path(const caf::error& why) {
  if (path_ != "chunked" && why == errc::peer_lost && paths_.skip(path_))
    say("path         " + path_ + " is not used any more: it broke (" +
        text_of(why) + ") while the connection lived");
}

void remote_connector_state::drop_link() {
  if (!link_)
    return;
  self_->demonitor(link_);
  self_->send_exit(link_, caf::exit_reason::user_shutdown);
  link_ = parameter_server_actor{};
}

// A place may become free, a server may come up; what was said about settings
// and versions stands.
void remote_connector_state::refused(const caf::error& why) {
  if (why == errc::settings_conflict)
    end({static_cast<uint8_t>(exit_status::usage),
         address() + " refuses this node: " + text_of(why)});
  else if (why == errc::protocol_mismatch)
    end({1, address() + ": " + text_of(why)});
  else if (why == errc::shutting_down)
    end({});
  else {
    drop_link();
    retry(text_of(why));
  }
}

void remote_connector_state::retry(const std::string& why) {
  auto delay = attempts_.failed(clock_.elapsed(self_));
  if (!delay) {
    end({1, "no parameter server at " + address() + " within " +
              std::to_string(static_cast<int>(parts_.connect_timeout)) +
              " s (" + why +
              "); check [cluster] host and port, or raise --connect-timeout"});
    return;
  }
  if (attempts_.failures() == 1)
    say("waiting      for the parameter server at " + address() + ": " + why);
  self_->delayed_send(self_, to_timespan(*delay), tick_atom_v);
}

void remote_connector_state::end(const run_end& how) {
  attempts_.end();
  drop_link();
  if (performer_)
    std::visit(
      [this](const auto& who) {
        self_->send_exit(who, caf::exit_reason::user_shutdown);
      },
      *performer_);
  self_->send(parts_.supervisor, ended_atom_v, how);
  self_->quit();
}

std::string remote_connector_state::address() const {
  return parts_.host + ":" + std::to_string(parts_.port);
}

} // namespace troupe
