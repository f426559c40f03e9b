#pragma once
// A session client whose lead is in another process: it looks for the lead at
// all places where that may be, and waits for it there.
//
// The base of the states of such session clients; on their actor's thread.

#include "actors/session/handshake.hpp"
#include "actors/session/lead_places.hpp"
#include "actors/session/session_client_state.hpp"
#include "config/text/failure.hpp"
#include "config/values/address.hpp"
#include "messages/proto/hello.pb.h"

#include <functional>
#include <optional>
#include <string>

namespace troupe {

/// Who names an address that a meeting file has, for a line that refuses it.
inline constexpr const char* named_by_file = "the meeting file";

/// How a node finds its lead, and whom it tells of the end.
struct lead_search {
  std::string host; ///< The lead's.
  uint16_t port = 0;
  double connect_timeout = 60; ///< s without a lead before giving up.
  uint64_t jitter_seed = 0;
  /// Whether all nodes begin a run's next life now, the lead too.
  bool begins_anew = false;
  /// Where a lead says that it is, now; may be empty.
  std::function<std::optional<config::address>()> look_up{};
  transport::credentials own{}; ///< What this node shows.
  proto::Hello hello;
  supervisor_actor supervisor;
};

class lead_seeker_state : public session_client_state {
protected:
  /// @param lead_name What users call the lead.
  /// @param longest Delay between two attempts, in s.
  lead_seeker_state(session_client_actor::pointer self, const lead_search& by,
                    std::string lead_name, double longest = 5);

  /// Starts a handshake in the current attempt.
  /// @param then Its outcomes; those of a failure are added here.
  void shake_hands(const config::address& at, const proto::Hello& hello,
                   handshake_outcomes then);

  /// Ends, or tries again where that may help.
  void refused(const caf::error& why);

  /// Tries again after this delay; without one, gives up.
  /// @param quiet s in which the user hears nothing.
  void wait_for_lead(std::optional<double> delay, double quiet,
                     const std::string& why);

  /// Goes on to the place that `lead_search::look_up` names, if it does. Throws
  /// `failure`: it is beyond loopback, where this node may not go.
  void look_for_lead();

  /// Throws `failure` if this node may not go there.
  /// @param from Who names this address.
  void require_allowed(const config::address& where,
                       const std::string& from) const;

  void end_for(const failure& why);

  /// Tells the supervisor, and ends the actor.
  void quit(const run_end& how);

  /// Where the lead is, or is looked for.
  std::string address() const;

  lead_places places_;
  supervisor_actor supervisor_;

private:
  std::string lead_name_;
  std::function<std::optional<config::address>()> look_up_;
  transport::credentials own_;
};

} // namespace troupe
