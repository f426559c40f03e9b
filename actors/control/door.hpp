#pragma once
// Publishes an actor to the nodes that an acceptor lets in: their control
// connections go to CAF, each with a guard. Any thread may make it.

#include "actors/control/connection.hpp"
#include "messages/transport/wire/acceptor.hpp"

#include <caf/actor_system.hpp>
#include <caf/io/doorman.hpp>

#include <memory>
#include <set>
#include <string>

namespace troupe::control {

struct door_parts {
  caf::strong_actor_ptr published;
  std::set<std::string> types; ///< Of the published actor, as CAF names them.
  std::shared_ptr<transport::acceptor> acceptor;
  grants_ptr given; ///< To the nodes that come in.
  breach_told tells;
};

class door {
public:
  door(caf::actor_system& system, door_parts parts);

  /// Lets no more nodes in; those that are in stay.
  ~door();

  door(const door&) = delete;
  door& operator=(const door&) = delete;

private:
  caf::actor_system& system_;
  door_parts parts_;
};

} // namespace troupe::control
