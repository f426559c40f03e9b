#pragma once
// The port of a parameter server, open from its start on. Who comes while the
// server still reads its data is asked to wait, and told how far the start has
// come: so the time that nodes look for a server does not limit how long it may
// take to start, as long as it goes on.
//
// Owned by who starts the server, and used on that thread.

#include "apps/startup/listening_ports.hpp"

#include <memory>

namespace troupe::app {

class front_door {
public:
  /// Opens the port. What this thread computes from now on is the start's
  /// progress. Throws `run_error` when the port cannot be had.
  front_door(caf::actor_system& system, config::address where,
             const speech& say);

  /// Closes the port, unless it was left to an admission.
  ~front_door();

  front_door(const front_door&) = delete;
  front_door& operator=(const front_door&) = delete;

  /// Where it is, also if the system chose the port.
  const config::address& where() const { return where_; }

  /// Who comes from now on talks to this actor; null: is asked to wait.
  void lead_to(const admission_actor& inside);

  /// The same for the whole life of the process: the door ends with the
  /// admission. They and the gate are put under the supervisor.
  void leave_to(const admission_actor& inside,
                const supervisor_actor& supervisor);

private:
  struct sign;

  config::address where_;
  std::shared_ptr<sign> sign_; ///< Where it leads.
  admission_actor handle_;     ///< What is published there.
  listening_ports ports_;
};

} // namespace troupe::app
