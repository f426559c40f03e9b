#include "actors/session/handshake.hpp"

#include "actors/control/dialer.hpp"
#include "actors/runtime/run_clock.hpp"

#include <algorithm>
#include <set>
#include <utility>

namespace troupe {

namespace {

double patience_of(const connection_attempts& attempts) {
  return std::min(patience_with_a_peer, attempts.give_up());
}

void greet(session_client_actor::pointer self, connection_attempts& attempts,
           const admission_actor& admission, const std::string& hello,
           const handshake_outcomes& then) {
  attempts.asks(self, caf::actor_cast<caf::strong_actor_ptr>(admission));
  self->request(admission, to_timespan(patience_of(attempts)), hello)
    .then(attempts.in_this_one([self, &attempts,
                                then](const std::string& bytes,
                                      const caf::strong_actor_ptr& inside) {
      attempts.answered(self);
      proto::Welcome welcome;
      if (!welcome.ParseFromString(bytes))
        then.refusal(caf::make_error(
          errc::protocol_mismatch, std::string{"the welcome cannot be read"}));
      else if (welcome.measure() && then.measure)
        then.measure(welcome);
      else if (welcome.later() && welcome.start_work() > 0 && then.starts)
        then.starts(welcome.start_work()), then.later(welcome.refusal());
      else if (welcome.later())
        then.later(welcome.refusal());
      else if (welcome.nodes_size() > 0 && then.elsewhere)
        then.elsewhere(welcome);
      else if (!welcome.accepted() || !inside)
        then.refusal(
          caf::make_error(errc::settings_conflict, welcome.refusal()));
      else
        then.welcome(welcome, inside);
    }),
          attempts.in_this_one([self, &attempts, then](const caf::error& why) {
            attempts.answered(self);
            then.later(text_of(why));
          }));
}

} // namespace

void handshake(session_client_actor::pointer self,
               connection_attempts& attempts, const greeting& with,
               const handshake_outcomes& then) {
  auto bytes = with.hello.SerializeAsString();
  auto patience = patience_of(attempts);
  auto dialer =
    self->spawn<caf::detached>(control::dial, with.at, with.own, patience);
  self->request(dialer, caf::infinite, caf::connect_atom_v)
    .then(attempts.in_this_one([self, &attempts, bytes,
                                then](const caf::node_id&,
                                      const caf::strong_actor_ptr& ptr,
                                      const std::set<std::string>& interface) {
      auto& system = self->system();
      if (!ptr || !system.assignable(interface,
                                     system.message_types<admission_actor>()))
        then.refusal(caf::make_error(
          errc::protocol_mismatch,
          std::string{"the peer there is no parameter server"}));
      else
        greet(self, attempts, caf::actor_cast<admission_actor>(ptr), bytes,
              then);
    }),
          attempts.in_this_one([then](const caf::error& why) {
            if (why == errc::protocol_mismatch)
              then.refusal(why);
            else
              then.later(text_of(why));
          }));
}

} // namespace troupe
