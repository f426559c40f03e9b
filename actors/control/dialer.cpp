#include "actors/control/dialer.hpp"

#include "actors/control/connection.hpp"
#include "actors/runtime/run_clock.hpp"
#include "messages/error.hpp"
#include "messages/transport/wire/meeting.hpp"

#include <set>
#include <string>

namespace troupe::control {

namespace {

using found_node =
  caf::result<caf::node_id, caf::strong_actor_ptr, std::set<std::string>>;

/// A node that let this one in may still say nothing: then the connection ends
/// with CAF's heartbeat.
found_node give_to_caf(dialer_actor::pointer self,
                       transport::connection_line line,
                       const config::address& where, double patience) {
  auto answer = self->make_response_promise<caf::node_id, caf::strong_actor_ptr,
                                            std::set<std::string>>();
  self
    ->request(broker_of(self->system()), to_timespan(patience),
              caf::connect_atom_v,
              make_connection(self->system(), {std::move(line)}), where.port)
    .then(
      [self, answer](const caf::node_id& node,
                     const caf::strong_actor_ptr& published,
                     const std::set<std::string>& types) mutable {
        answer.deliver(node, published, types);
        self->quit();
      },
      [self, answer](const caf::error&) mutable {
        answer.deliver(caf::make_error(
          errc::peer_lost, std::string{"the node there lets this one in, and "
                                       "then does not shake hands"}));
        self->quit();
      });
  return answer;
}

} // namespace

dialer_actor::behavior_type dial(dialer_actor::pointer self,
                                 const config::address& where,
                                 const transport::credentials& own,
                                 double patience) {
  return {[=](caf::connect_atom) -> found_node {
    auto fails = [&](errc code, const transport::path_error& why) {
      self->quit();
      return caf::make_error(code, std::string{why.what()});
    };
    try {
      auto line = transport::connect_securely(where, own, patience, 0);
      transport::open_line(line, transport::purpose::control, own.proof,
                           patience);
      return give_to_caf(self, line.release(), where, patience);
    } catch (const transport::refused_entry& why) {
      return fails(why.for_good ? errc::protocol_mismatch : errc::peer_lost,
                   why);
    } catch (const transport::path_error& why) {
      return fails(errc::peer_lost, why);
    }
  }};
}

} // namespace troupe::control
