#include "actors/links/local_link.hpp"
#include "actors/runtime/run_is_over.hpp"
#include "actors/runtime/unexpected.hpp"
#include "actors/session/session_client.hpp"

#include <exception>
#include <utility>

namespace troupe {

local_session_client_state::local_session_client_state(
  pointer self, local_session_client_parts parts)
  : self_(self), parts_(std::move(parts)), clock_(self),
    attempts_(parts_.connect_timeout, parts_.jitter_seed) {
  const auto& [codec, store] = parts_.packs;
  if (codec && codec->how().has_error_feedback())
    feedback_ =
      std::make_shared<error_feedback>(std::vector{codec->numbers()}, store);
  on_unexpected(self_, [this](const std::string& line) {
    self_->send(parts_.with.lead, refuse_atom_v, line);
  });
}

session_client_actor::behavior_type
local_session_client_state::make_behavior() {
  self_->set_down_handler([this](const caf::down_msg& down) {
    if (link_ && down.source == link_.address())
      lost();
  });
  make_participant();
  if (participant_ && !mends())
    tie_to(parts_.with);
  if (participant_)
    connect();
  return {
    [this](connect_atom) {
      if (!mends())
        connect();
      else if (!attempts_.under_way())
        lost();
    },
    [this](tick_atom) { connect(); },
    [this](write_atom, version at, const push_id& settled) {
      return write_error_feedback(feedback_, at, settled);
    },
    [](leave_atom) {},
    [](join_atom) {},
    [](fetch_atom, const payload_shape&) -> last_version {
      return run_is_over();
    },
    [this](ended_atom, const run_end& how) { end(how); },
    [this](stop_atom) { end({}); },
  };
}

void local_session_client_state::make_participant() try {
  participant_ = face_ = parts_.make(session_client_actor{self_});
} catch (const std::exception& err) {
  self_->send(parts_.with.lead, refuse_atom_v, one_line(err));
}

// -- connecting ---------------------------------------------------------------

void local_session_client_state::connect() {
  attempts_.begin();
  if (!mends() || find_server())
    std::visit([this](const auto& who) { seat(who); }, *face_);
  else
    retry();
}

bool local_session_client_state::find_server() {
  auto found = parts_.find();
  if (!found)
    return false;
  parts_.with = std::move(*found);
  tie_to(parts_.with);
  self_->monitor(link_);
  return true;
}

void local_session_client_state::tie_to(const local_server& with) {
  if (!parts_.tie) {
    link_ = compressed(
      parameter_server_actor{spawn_local_link(self_->system(), with.lead)});
    return;
  }
  auto made = parts_.tie(with, *participant_);
  link_ = compressed(made.link);
  face_ = made.face;
}

parameter_server_actor local_session_client_state::compressed(
  const parameter_server_actor& link) const {
  if (!parts_.packs.codec)
    return link;
  return spawn_compressing_link(self_->system(),
                                {link, parts_.packs.codec, feedback_, 0, true});
}

void local_session_client_state::seat(const evaluator_actor& who) {
  self_->request(parts_.with.coordinator, caf::infinite, register_atom_v, who)
    .then(
      attempts_.in_this_one([this](incarnation) {
        attempts_.succeeded();
        self_->send(std::get<evaluator_actor>(*participant_), attach_atom_v,
                    link_);
      }),
      attempts_.in_this_one([this](const caf::error& why) { refused(why); }));
}

void local_session_client_state::seat(const worker_actor& who) {
  self_
    ->request(parts_.with.coordinator, caf::infinite, register_atom_v,
              registration_request{
                parts_.rank.has_value(), parts_.rank.value_or(worker_id{0}),
                parts_.transport, parts_.data, parts_.awaits_score},
              who)
    .then(
      attempts_.in_this_one([this](const registration& as) {
        attempts_.succeeded();
        self_->send(std::get<worker_actor>(*participant_), attach_atom_v, link_,
                    as, gradient_stream_ptr{});
      }),
      attempts_.in_this_one([this](const caf::error& why) { refused(why); }));
}

// When the run is over, the coordinator tells the participant.
void local_session_client_state::refused(const caf::error& why) {
  if (!mends() || why == errc::shutting_down)
    return;
  drop_link();
  retry();
}

// -- losing the place ---------------------------------------------------------

void local_session_client_state::lost() {
  drop_link();
  tell(self_, *participant_, detach_atom_v);
  retry();
}

void local_session_client_state::drop_link() {
  if (!link_)
    return;
  self_->demonitor(link_);
  self_->send_exit(link_, caf::exit_reason::user_shutdown);
  link_ = parameter_server_actor{};
}

void local_session_client_state::retry() {
  if (auto delay = attempts_.failed(clock_.elapsed(self_)))
    self_->delayed_send(self_, to_timespan(*delay), tick_atom_v);
  else
    tell(self_, *participant_, stop_atom_v, run_end{});
}

// A failure of one participant in this process happens to the others, too; but
// one that can reconnect stands for a process of its own.
void local_session_client_state::end(const run_end& how) {
  if (how.failed() && !mends())
    self_->send(parts_.with.lead, refuse_atom_v, how.line);
  if (mends())
    drop_link();
  self_->quit();
}

} // namespace troupe
