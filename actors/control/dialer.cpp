#include "actors/control/dialer.hpp"

#include "actors/control/connection.hpp"
#include "messages/error.hpp"
#include "messages/transport/wire/meeting.hpp"

#include <caf/io/all.hpp>
#include <caf/io/basp_broker.hpp>

#include <set>
#include <string>

namespace troupe::control {

namespace {

using found_node =
  caf::result<caf::node_id, caf::strong_actor_ptr, std::set<std::string>>;

found_node give_to_caf(dialer_actor::pointer self,
                       transport::connection_line line, uint16_t port) {
  auto answer = self->make_response_promise<caf::node_id, caf::strong_actor_ptr,
                                            std::set<std::string>>();
  auto& middleman = self->system().middleman();
  auto broker = caf::actor_cast<caf::actor>(
    middleman.named_broker<caf::io::basp_broker>("BASP"));
  self
    ->request(broker, caf::infinite, caf::connect_atom_v,
              make_connection(self->system(), {std::move(line)}), port)
    .then(
      [self, answer](const caf::node_id& node,
                     const caf::strong_actor_ptr& published,
                     const std::set<std::string>& types) mutable {
        answer.deliver(node, published, types);
        self->quit();
      },
      [self, answer](const caf::error& why) mutable {
        answer.deliver(caf::make_error(errc::peer_lost, caf::to_string(why)));
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
      return give_to_caf(self, line.release(), where.port);
    } catch (const transport::refused_entry& why) {
      return fails(why.for_good ? errc::protocol_mismatch : errc::peer_lost,
                   why);
    } catch (const transport::path_error& why) {
      return fails(errc::peer_lost, why);
    }
  }};
}

} // namespace troupe::control
