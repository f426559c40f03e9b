#pragma once
// Connects CAF to another node's acceptor.

#include "config/values/address.hpp"
#include "messages/interfaces.hpp"
#include "messages/transport/wire/meeting.hpp"

namespace troupe::control {

/// An actor on a thread of its own, for one connection: it blocks until the
/// node there has let this one in, at most `patience` seconds for each step,
/// and ends with its answer. Errors: peer_lost, with what the user may do;
/// protocol_mismatch when the node there refuses for good.
dialer_actor::behavior_type dial(dialer_actor::pointer self,
                                 const config::address& where,
                                 const transport::credentials& own,
                                 double patience);

} // namespace troupe::control
