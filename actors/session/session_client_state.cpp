#include "actors/session/session_client_state.hpp"

#include "actors/runtime/run_is_over.hpp"
#include "actors/runtime/unexpected.hpp"
#include "actors/worker/error_feedback.hpp"

#include <utility>

namespace troupe {

session_client_state::session_client_state(session_client_actor::pointer self,
                                           connection_attempts attempts)
  : self_(self), clock_(self), attempts_(std::move(attempts)) {
  on_unexpected(self_, [this](const std::string& line) { fail(line); });
}

session_client_actor::behavior_type session_client_state::make_behavior() {
  self_->set_down_handler([this](const caf::down_msg& down) {
    if (!attempts_.lost_with(down.source))
      return note_down(down);
    drop_links();
    retry(connection_lost);
  });
  start();
  return {
    [this](connect_atom) { register_again(); },
    [this](tick_atom) { connect(); },
    [this](write_atom, version at, const push_id& settled) {
      return write_error_feedback(feedback_, at, settled);
    },
    [this](leave_atom) { pause(); },
    [this](join_atom) { resume(); },
    [this](fetch_atom, const payload_shape& shape) {
      return fetch_last(shape);
    },
    [this](ended_atom, const run_end& how) { note_end(how); },
    [this](stop_atom) { stop(); },
    [this](stop_atom, double seconds) { stop_within(seconds); },
  };
}

void session_client_state::register_again() {
  if (!attempts_.under_way())
    lost();
}

last_version session_client_state::fetch_last(const payload_shape&) {
  return run_is_over();
}

void session_client_state::connect_after(double delay) {
  self_->delayed_send(self_, to_timespan(delay), tick_atom_v);
}

} // namespace troupe
