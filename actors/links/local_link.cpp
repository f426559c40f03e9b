#include "actors/links/local_link.hpp"

#include <string>

namespace troupe {

namespace {

struct local_link_state {
  static constexpr const char* name = "troupe.local-link";

  parameter_server_actor server;
  module_actor modules;
};

using link_pointer = remote_module_actor::stateful_pointer<local_link_state>;

template <class Atom>
caf::result<module_answer> pass_on(link_pointer self, Atom msg,
                                   const module_call& call) {
  if (!self->state.modules)
    return caf::make_error(errc::protocol_violation,
                           std::string{"there are no remote modules here"});
  return self->delegate(self->state.modules, msg, call);
}

remote_module_actor::behavior_type
local_link(link_pointer self, const parameter_server_actor& server,
           const module_actor& modules) {
  self->state = {server, modules};
  self->monitor(server);
  self->set_down_handler([self](const caf::down_msg&) { self->quit(); });
  return {
    [self](push_atom msg, const push_header& header, const payload& gradient) {
      return self->delegate(self->state.server, msg, header, gradient);
    },
    [self](pull_atom msg, const pull_header& header) {
      return self->delegate(self->state.server, msg, header);
    },
    [self](watch_atom msg, const watch_request& request) {
      return self->delegate(self->state.server, msg, request);
    },
    [self](score_atom msg, const score& found) {
      return self->delegate(self->state.server, msg, found);
    },
    [self](forward_atom msg, const module_call& call) {
      return pass_on(self, msg, call);
    },
    [self](backward_atom msg, const module_call& call) {
      return pass_on(self, msg, call);
    },
    [self](cancel_atom msg, lease_id which) {
      if (self->state.modules)
        self->send(self->state.modules, msg, which);
    },
  };
}

} // namespace

remote_module_actor spawn_local_link(caf::actor_system& system,
                                     const parameter_server_actor& server,
                                     const module_actor& modules) {
  return system.spawn(local_link, server, modules);
}

} // namespace troupe
