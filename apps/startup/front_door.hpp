#pragma once
// The port of a parameter server, which is open from the server's start on. A
// node that comes while the server still reads its data is asked to wait, and
// is told how far the start has come. So a start may take longer than nodes
// look for a server, as long as it makes progress.
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
             const transport::credentials& own, const speech& say);

  /// Closes the port, unless it was left to an admission.
  ~front_door();

  front_door(const front_door&) = delete;
  front_door& operator=(const front_door&) = delete;

  /// Where it is, also if the system chose the port.
  const config::address& where() const { return where_; }

  const std::shared_ptr<transport::acceptor>& acceptor() const {
    return acceptor_;
  }

  /// To be told what nodes may address.
  const control::grants_ptr& given() const { return given_; }

  /// Nodes that come from now on talk to this actor; null: they are asked to
  /// wait.
  void lead_to(const admission_actor& inside);

  /// The same for the whole life of the process: the door ends with the
  /// admission. Door and admission are put under the supervisor.
  void leave_to(const admission_actor& inside,
                const supervisor_actor& supervisor);

private:
  struct sign;

  config::address where_;
  std::shared_ptr<transport::acceptor> acceptor_;
  control::grants_ptr given_ = std::make_shared<control::grants>();
  std::shared_ptr<sign> sign_; ///< Where it leads.
  admission_actor handle_;     ///< What is published there.
  std::shared_ptr<control::door> door_;
};

} // namespace troupe::app
