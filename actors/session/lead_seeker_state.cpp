#include "actors/session/lead_seeker_state.hpp"

#include "actors/recording/console.hpp"

#include <utility>

namespace troupe {

lead_seeker_state::lead_seeker_state(session_client_actor::pointer self,
                                     const lead_search& by,
                                     std::string lead_name, double longest)
  : session_client_state(self, {by.connect_timeout, by.jitter_seed, longest}),
    places_({by.host, by.port}), supervisor_(by.supervisor),
    lead_name_(std::move(lead_name)), look_up_(by.look_up), own_(by.own) {
  // nop
}

void lead_seeker_state::shake_hands(const config::address& at,
                                    const proto::Hello& hello,
                                    handshake_outcomes then) {
  then.refusal = [this](const caf::error& why) {
    refused(why);
  };
  then.later = [this](const std::string& why) {
    drop_links();
    retry(why);
  };
  handshake(self_, attempts_, {at, own_, hello}, then);
}

// Trying again may help when no place is free or no server is up, but not when
// settings or versions differ.
void lead_seeker_state::refused(const caf::error& why) {
  if (why == errc::settings_conflict)
    return end({static_cast<uint8_t>(exit_status::usage),
                address() + " refuses this node: " + text_of(why)});
  if (why == errc::protocol_mismatch || why == errc::cluster_full)
    return end({1, address() + ": " + text_of(why)});
  if (why == errc::shutting_down)
    return end({});
  drop_links();
  retry(text_of(why));
}

void lead_seeker_state::wait_for_lead(std::optional<double> delay, double quiet,
                                      const std::string& why) {
  if (!delay)
    return end({1, "no " + lead_name_ + " at " + address() + " within " +
                     std::to_string(static_cast<int>(attempts_.give_up())) +
                     " s (" + why +
                     "); check [cluster] host and port, or raise "
                     "--connect-timeout"});
  if (attempts_.is_news(clock_.elapsed(self_), quiet))
    recording::say("waiting      for the " + lead_name_ + " at " + address() +
                   ": " + why);
  connect_after(*delay);
}

void lead_seeker_state::look_for_lead() {
  auto found = look_up_ ? look_up_() : std::nullopt;
  if (!found)
    return;
  require_allowed(*found, named_by_file);
  places_.add(*found);
}

void lead_seeker_state::require_allowed(const config::address& where,
                                        const std::string& from) const {
  if (!own_.leaves_host())
    config::require_loopback(where, from);
}

void lead_seeker_state::end_for(const failure& why) {
  end({static_cast<uint8_t>(why.status()), why.what()});
}

void lead_seeker_state::quit(const run_end& how) {
  self_->send(supervisor_, ended_atom_v, how);
  self_->quit();
}

std::string lead_seeker_state::address() const {
  return config::to_string(places_.current());
}

} // namespace troupe
