#include "actors/recording/console.hpp"
#include "actors/recording/first_failure.hpp"
#include "actors/recording/log_lines.hpp"
#include "actors/session/download.hpp"
#include "actors/session/session_client.hpp"
#include "config/text/failure.hpp"
#include "config/text/text.hpp"
#include "config/text/value.hpp"
#include "messages/run_record.hpp"

#include <algorithm>
#include <utility>

namespace troupe {

namespace {

using recording::say;

/// Seconds between two searches for a lead: the next one may not lead for long.
constexpr double longest_when_following = 0.5;

/// What users call the run (`--run-id`); empty: they gave it no name.
std::string run_name_of(const proto::Welcome& welcome) {
  for (const auto& [id, value] : description_of(welcome).settings)
    if (id == "cluster.run-id")
      return value;
  return "";
}

} // namespace

remote_session_client_state::remote_session_client_state(
  pointer self, remote_session_client_parts parts)
  : lead_seeker_state(self, parts, "parameter server",
                      parts.follows ? longest_when_following : 5),
    parts_(std::move(parts)),
    paths_(parts_.transport, {parts_.memory, parts_.gpus, parts_.own}, say),
    servers_(self->system()), last_(self_, attempts_, parts_.connect_timeout) {
  // nop
}

// -- connecting ---------------------------------------------------------------

// Asks the lead's admission first; then, for a worker, those of the other
// shards, which the lead names.
void remote_session_client_state::connect() {
  attempts_.begin();
  servers_.clear();
  servers_.add(places_.current());
  shake_hands_with(0);
}

void remote_session_client_state::shake_hands_with(size_t index) {
  parts_.hello.set_seeks_lead(index == 0);
  handshake_outcomes then;
  then.welcome = [this, index](const proto::Welcome& welcome,
                               const caf::strong_actor_ptr& inside) {
    enter(index, welcome, caf::actor_cast<gateway_actor>(inside));
  };
  then.measure = [this](const proto::Welcome& welcome) {
    measure(welcome);
  };
  then.starts = [this](uint64_t work) {
    attempts_.starts(work, clock_.elapsed(self_));
  };
  shake_hands(servers_.all()[index].at, parts_.hello, std::move(then));
}

void remote_session_client_state::measure(const proto::Welcome& welcome) try {
  parts_.hello.set_bfloat16_gain(parts_.bfloat16_gain(welcome));
  connect();
} catch (const failure& err) {
  end_for(err);
}

void remote_session_client_state::enter(size_t index,
                                        const proto::Welcome& welcome,
                                        const gateway_actor& gateway) try {
  if (index == 0 && needs_frozen(welcome))
    return download(welcome, gateway);
  if (index == 0) {
    auto shards = shards_of(welcome);
    take_part(welcome);
    welcome_ = welcome;
    if (is_worker()) // An evaluator gets whole versions, from the lead.
      for (const auto& shard : shards)
        servers_.add(shard);
  } else if (welcome.description().run_id() != run_.run_id) {
    throw transport::path_error("a shard there is of another run");
  }
  servers_.describe(index, welcome, is_worker());
  paths_.meet(run_.run_id + "/" + std::to_string(run_.life));
  auto terms = servers_.terms(index, welcome, is_worker(), parts_.overlap);
  tie(index, gateway,
      paths_.connect(welcome.paths(), servers_.all()[index].at, terms,
                     clock_.elapsed(self_)));
} catch (const failure& err) {
  end_for(err);
} catch (const transport::path_error& err) {
  drop_links();
  retry(err.what());
}

// The shards that this node connects to, at once or when one of them leads.
std::vector<config::address>
remote_session_client_state::shards_of(const proto::Welcome& welcome) const {
  auto connects = parts_.hello.role() == "worker" ||
                  (parts_.follows && !welcome.run_directory().empty());
  std::vector<config::address> out;
  for (const auto& shard : welcome.shards()) {
    out.push_back({shard.host(), static_cast<uint16_t>(shard.port())});
    if (connects)
      require_allowed(out.back(), "the parameter server at " + address());
  }
  return out;
}

bool remote_session_client_state::needs_frozen(
  const proto::Welcome& welcome) const {
  return welcome.frozen() > 0 && welcome.description().run_id() != frozen_of_;
}

void remote_session_client_state::download(const proto::Welcome& welcome,
                                           const gateway_actor& gateway) {
  payload_shape shape{static_cast<element_type>(welcome.element_type()),
                      welcome.frozen()};
  request_weights(self_, gateway, shape)
    .then(in_this_attempt([this, welcome, gateway](const payload& got) {
            frozen_ = got;
            frozen_of_ = welcome.description().run_id();
            say("frozen       " + config::size_text(got.shape().bytes()) +
                " of weights that are not trained");
            enter(0, welcome, gateway);
          }),
          in_this_attempt([this](const caf::error& why) {
            drop_links();
            retry(text_of(why));
          }));
}

last_version
remote_session_client_state::fetch_last(const payload_shape& shape) {
  return last_.fetch(gateway_, shape);
}

// A server that returns may belong to another run, or have other settings or
// data: then the participant that was made for the run before is useless.
void remote_session_client_state::take_part(const proto::Welcome& welcome) {
  auto its = description_of(welcome);
  if (participant_) {
    auto is_other = its.run_id != run_.run_id;
    auto what = config::differences(run_, its, config::relation::resume);
    if (parts_.goes_on)
      std::erase_if(what, [&](const config::difference& one) {
        return !one.key.empty() && parts_.goes_on(one.key);
      });
    if (is_other)
      say("run          there is another run at " + address() +
          " now: this node begins anew");
    else if (!what.empty())
      say("run          has changed (" + what.front().what + ": " +
          config::or_not_set(what.front().run) + " before, " +
          config::or_not_set(what.front().here) +
          " now): this node begins anew");
    if (is_other)
      feedback_.reset();
    if (is_other || !what.empty())
      end_participant();
  }
  if (welcome.frozen() == 0)
    frozen_ = {};
  if (!participant_)
    participant_ = parts_.make(welcome, session_client_actor{self_}, frozen_);
  run_ = std::move(its);
  parts_.feedback_store.run_id = run_.run_id;
}

void remote_session_client_state::tie(size_t index,
                                      const gateway_actor& gateway,
                                      transport::path_ptr way) {
  if (index == 0)
    gateway_ = gateway;
  const auto& link = servers_.tie(index, gateway, std::move(way));
  self_->monitor(link);
  self_
    ->request(gateway, to_timespan(patience_with_a_peer), attach_atom_v,
              parameter_server_actor{link})
    .then(in_this_attempt([this](const coordinator_actor& coordinator) {
            attached(coordinator);
          }),
          in_this_attempt([this](const caf::error&) { lost(); }));
}

void remote_session_client_state::attached(
  const coordinator_actor& coordinator) {
  if (!coordinator_)
    coordinator_ = coordinator;
  if (auto next = servers_.next())
    return shake_hands_with(*next);
  keep_feedback();
  link_ = servers_.join(feedback_, parts_.exchange);
  take_seat();
}

void remote_session_client_state::take_seat() {
  if (paused_) {
    attempts_.succeeded();
    self_->send(coordinator_, detach_atom_v,
                std::get<worker_actor>(*participant_));
    return;
  }
  request_seat(self_, attempts_, *participant_,
               {coordinator_, wish(), to_timespan(patience_with_a_peer)},
               {[this](const std::optional<registration>& as) { seated(as); },
                [this](const caf::error& why) {
                  // Its own place may not be known to be lost yet.
                  if (why != errc::cluster_full || place_.life.value == 0)
                    return refused(why);
                  drop_links();
                  retry(text_of(why));
                }});
}

registration_request remote_session_client_state::wish() const {
  if (!is_worker())
    return {};
  return {parts_.rank.has_value(),
          parts_.rank.value_or(worker_id{0}),
          servers_.paths(),
          parts_.owns ? parts_.owns() : owned_data{},
          parts_.awaits_score,
          parts_.leases ? parts_.leases() : cores::leases_ahead,
          parts_.takes_last,
          parts_.device};
}

// If the node is not connected yet, it takes no seat when it is.
void remote_session_client_state::pause() {
  if (!participant_ || std::exchange(paused_, true) || !link_)
    return;
  tell(self_, *participant_, detach_atom_v);
  attempts_.begin(); // The answer to a registration may be on its way.
  take_seat();
}

void remote_session_client_state::resume() {
  if (!std::exchange(paused_, false) || !link_)
    return;
  attempts_.begin();
  take_seat();
}

// The error feedback of a worker outlives its links, unless the next server has
// other shards.
void remote_session_client_state::keep_feedback() {
  auto counts = servers_.counts_with_feedback();
  if (counts.empty())
    return;
  if (!feedback_ || !feedback_->has(counts))
    feedback_ = std::make_shared<error_feedback>(counts, parts_.feedback_store);
}

void remote_session_client_state::seated(
  const std::optional<registration>& as) {
  note_successors();
  auto compressed =
    servers_.all().front().codec ? ", gradients compressed" : "";
  auto name = run_name_of(welcome_);
  if (as)
    recording::log_lines::of_process().seated(as->worker.value, as->life.value);
  say("connected    to " + address() + " as " +
      (as ? "worker " + to_string(as->worker) : "evaluator") + " over " +
      servers_.paths() + compressed +
      (name.empty() ? "" : ", run " + config::shown(name)));
  if (as) {
    place_ = *as;
    if (parts_.on_place)
      parts_.on_place(welcome_, places_.current(), as->worker);
  }
  attach_participant(self_, *participant_,
                     {link_, as, servers_.way_of_gradients(parts_.exchange)});
}

// Only a lead whose nodes go on without it says where the run's files are. The
// next lead may have changed what this node has agreed to, so the hello insists
// on no setting any more.
void remote_session_client_state::note_successors() {
  if (!parts_.follows || welcome_.run_directory().empty())
    return;
  parts_.hello.clear_explicit_();
  places_.found(shards_of(welcome_));
}

// -- losing the place ---------------------------------------------------------

void remote_session_client_state::lost() {
  drop_links();
  if (participant_)
    tell(self_, *participant_, detach_atom_v);
  retry(connection_lost);
}

void remote_session_client_state::note_down(const caf::down_msg& down) {
  for (const auto& one : servers_.all())
    if (one.link && down.source == one.link.address()) {
      look_at_path(one.path, down.reason);
      return lost();
    }
}

// A link reports when its path breaks alone, without its connection.
void remote_session_client_state::look_at_path(const std::string& path,
                                               const caf::error& why) {
  if (path != config::actor_connection && why == errc::peer_lost &&
      paths_.skip(path, clock_.elapsed(self_)))
    say("path         " + path + " is not used for a minute: it broke (" +
        text_of(why) + ") while the connection lived");
}

void remote_session_client_state::drop_links() {
  last_.refuse(caf::make_error(errc::peer_lost, std::string{connection_lost}));
  for (const auto& one : servers_.all())
    if (one.link) {
      self_->demonitor(one.link);
      self_->send_exit(one.link, caf::exit_reason::user_shutdown);
    }
  if (link_)
    self_->send_exit(link_, caf::exit_reason::user_shutdown);
  servers_.clear();
  gateway_ = gateway_actor{};
  coordinator_ = coordinator_actor{};
  link_ = parameter_server_actor{};
}

// All places are tried, and then again after a while.
void remote_session_client_state::retry(const std::string& why) try {
  if (places_.next()) {
    attempts_.begin();
    self_->send(self_, tick_atom_v);
    return;
  }
  look_for_lead();
  auto may_move = parts_.begins_anew || (parts_.follows && participant_);
  wait_for_lead(attempts_.failed(clock_.elapsed(self_)),
                may_move ? time_to_begin_anew : 0, why);
} catch (const failure& err) {
  end_for(err);
}

// What the worker has not begun, others get when it is gone.
void remote_session_client_state::stop_within(double seconds) {
  if (!participant_ || !is_worker() || !link_ || paused_)
    return stop();
  say("stopping     told to stop: a gradient that is under way has " +
      config::print(seconds) + " s");
  self_
    ->request(std::get<worker_actor>(*participant_), to_timespan(seconds),
              leave_atom_v)
    .then(
      [this](sequence settled) {
        hand_over_feedback(settled);
        stop();
      },
      [this](const caf::error&) { stop(); });
}

void remote_session_client_state::hand_over_feedback(sequence settled) try {
  if (feedback_)
    feedback_->hand_over({place_.worker, place_.life, settled});
} catch (const failure& why) {
  say("feedback     is not handed over: " + std::string{why.what()});
}

// The coordinator hears first of a worker that fails: one that is only gone may
// come again, and is waited for.
void remote_session_client_state::end(const run_end& how) {
  constexpr double to_say_so = 1; // s
  attempts_.end();
  auto says_so = how.failed() && coordinator_ && place_.life.value > 0;
  recording::departure_reason why{"it failed: " + how.line,
                                  recording::log_lines::of_process().last()};
  if (says_so)
    self_
      ->request(coordinator_, to_timespan(to_say_so), leave_atom_v,
                place_.worker, place_.life, recording::to_text(why))
      .then([this, how] { quit(how); },
            [this, how](const caf::error&) { quit(how); });
  drop_links();
  end_participant();
  if (!says_so)
    quit(how);
}

void remote_session_client_state::end_participant() {
  if (auto gone = std::exchange(participant_, std::nullopt))
    std::visit(
      [this](const auto& who) {
        self_->send_exit(who, caf::exit_reason::user_shutdown);
      },
      *gone);
}

bool remote_session_client_state::is_worker() const {
  return std::holds_alternative<worker_actor>(*participant_);
}

} // namespace troupe
