#include "actors/links/local_link.hpp"
#include "actors/session/session_client.hpp"
#include "config/text/one_line.hpp"

#include <exception>
#include <utility>

namespace troupe {

local_session_client_state::local_session_client_state(
  pointer self, local_session_client_parts parts)
  : session_client_state(self, {parts.connect_timeout, parts.jitter_seed}),
    parts_(std::move(parts)) {
  const auto& [codec, store] = parts_.packs;
  if (codec && codec->how().has_error_feedback())
    feedback_ =
      std::make_shared<error_feedback>(codec->numbers_of_fragments(), store);
}

void local_session_client_state::start() {
  make_participant();
  if (!participant_)
    return;
  if (!mends())
    tie_to(parts_.with);
  connect();
}

void local_session_client_state::make_participant() try {
  participant_ = face_ = parts_.make(session_client_actor{self_});
} catch (const std::exception& err) {
  fail(one_line(err));
}

// -- connecting ---------------------------------------------------------------

void local_session_client_state::connect() {
  attempts_.begin();
  if (mends() && !find_server())
    return retry({});
  registration_request wish{
    parts_.rank.has_value(), parts_.rank.value_or(worker_id{0}),
    parts_.transport,        parts_.data,
    parts_.awaits_score,     parts_.leases};
  request_seat(self_, attempts_, *face_, {parts_.with.coordinator, wish},
               {[this](const std::optional<registration>& as) {
                  // The server is in this process.
                  gradient_way way{nullptr, true};
                  attach_participant(self_, *participant_, {link_, as, way});
                },
                [this](const caf::error& why) {
                  refused(why);
                }});
}

void local_session_client_state::register_again() {
  if (mends())
    session_client_state::register_again();
  else
    connect();
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

// When the run is over, the coordinator tells the participant.
void local_session_client_state::refused(const caf::error& why) {
  if (!mends() || why == errc::shutting_down)
    return;
  drop_links();
  retry({});
}

// -- losing the place ---------------------------------------------------------

void local_session_client_state::note_down(const caf::down_msg& down) {
  if (link_ && down.source == link_.address())
    lost();
}

void local_session_client_state::lost() {
  drop_links();
  tell(self_, *participant_, detach_atom_v);
  retry(connection_lost);
}

void local_session_client_state::drop_links() {
  if (!link_)
    return;
  self_->demonitor(link_);
  self_->send_exit(link_, caf::exit_reason::user_shutdown);
  link_ = parameter_server_actor{};
}

void local_session_client_state::retry(const std::string&) {
  if (auto delay = attempts_.failed(clock_.elapsed(self_)))
    connect_after(*delay);
  else
    tell(self_, *participant_, stop_atom_v, run_end{});
}

void local_session_client_state::fail(const std::string& line) {
  self_->send(parts_.with.lead, refuse_atom_v, line);
}

// A failure of one participant in this process happens to the others, too; but
// one that can reconnect stands for a process of its own.
void local_session_client_state::end(const run_end& how) {
  if (how.failed() && !mends())
    fail(how.line);
  if (mends())
    drop_links();
  self_->quit();
}

} // namespace troupe
