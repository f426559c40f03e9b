#include "actors/links/local_link.hpp"

namespace troupe {

namespace {

struct local_link_state {
  static constexpr const char* name = "troupe.local-link";

  parameter_server_actor server;
};

parameter_server_actor::behavior_type
local_link(parameter_server_actor::stateful_pointer<local_link_state> self,
           const parameter_server_actor& server) {
  self->state.server = server;
  self->monitor(server);
  self->set_down_handler([self](const caf::down_msg&) { self->quit(); });
  return {
    [self](push_atom msg, const push_header& header, const payload& gradient) {
      return self->delegate(self->state.server, msg, header, gradient);
    },
    [self](pull_atom msg, const pull_header& header) {
      return self->delegate(self->state.server, msg, header);
    },
    [self](watch_atom msg, version after) {
      return self->delegate(self->state.server, msg, after);
    },
    [self](score_atom msg, const score& found) {
      return self->delegate(self->state.server, msg, found);
    },
  };
}

} // namespace

parameter_server_actor spawn_local_link(caf::actor_system& system,
                                        const parameter_server_actor& server) {
  return system.spawn(local_link, server);
}

} // namespace troupe
