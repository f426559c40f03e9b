#pragma once
// A connection of CAF's that somebody else has made: its bytes go through a
// guard where they come from a node that has been let in. Functions of CAF's
// I/O thread, but for `make_connection`.

#include "actors/control/guard.hpp"
#include "messages/transport/wire/socket.hpp"

#include <caf/actor.hpp>
#include <caf/io/network/default_multiplexer.hpp>
#include <caf/io/scribe.hpp>

#include <functional>
#include <memory>
#include <string>

namespace troupe::control {

/// Told of a node whose connection was closed because of what it sent.
using breach_told = std::function<void(const std::string&)>;

struct connection_terms {
  transport::connection_line line;
  std::unique_ptr<guard> watched_by{}; ///< Null: the other end is believed.
  breach_told tells{};                 ///< Or null.
};

/// CAF's I/O thread, and the actor there that speaks its protocol. Any thread.
caf::io::network::default_multiplexer&
multiplexer_of(caf::actor_system& system);
caf::actor broker_of(caf::actor_system& system);

/// Any thread.
caf::io::scribe_ptr make_connection(caf::actor_system& system,
                                    connection_terms terms);

} // namespace troupe::control
