#include "apps/startup/listening_ports.hpp"

#include "actors/runtime/spawning.hpp"
#include "actors/runtime/supervisor.hpp"
#include "apps/startup/resources.hpp"
#include "config/schema/paths.hpp"
#include "config/text/failure.hpp"

#include <caf/io/middleman.hpp>

namespace troupe::app {

namespace {

run_error no_port(const config::address& where, const std::string& why) {
  return run_error("cannot listen on " + config::to_string(where) + ": " + why);
}

} // namespace

config::address listens_at(const config::cluster_settings& cluster) {
  auto out = cluster.listen.empty()
               ? config::address{cluster.host, cluster.port}
               : config::parse_address(cluster.listen);
  if (out.host == "localhost")
    out.host = "127.0.0.1";
  auto is_peer = cluster.topology == config::topology_kind::peers;
  if (is_peer && cluster.rank > 0u && cluster.listen.empty())
    return {address_towards(out.host), 0};
  return out;
}

void require_port(const config::address& where) {
  if (auto why = trouble_listening(where.host, where.port))
    throw no_port(where, *why);
}

std::shared_ptr<transport::shared_memory>
find_shared_memory(const config::settings& settings,
                   const payload_shape& weights, const speech& say) {
  const auto& cluster = settings.cluster;
  auto out = shared_memory_for(settings);
  if (!out)
    return nullptr;
  auto trouble = transport::shared_memory::trouble(weights.bytes());
  if (!trouble)
    return out;
  if (cluster.transport != "auto")
    throw run_error("--transport " + cluster.transport + ": " + *trouble);
  say("path         shm is not offered: " + *trouble);
  return nullptr;
}

std::shared_ptr<transport::reception>
open_reception(const config::cluster_settings& cluster, const std::string& host,
               bool shares_memory) {
  transport::reception_terms terms;
  if (config::takes_paths(cluster.transport, config::reach::network))
    terms.host = host;
  terms.same_host = shares_memory;
  if (terms.host.empty() && !terms.same_host)
    return nullptr;
  try {
    return std::make_shared<transport::reception>(terms);
  } catch (const transport::path_error& err) {
    throw run_error(err.what());
  }
}

listening_ports open_port(caf::actor_system& system,
                          const admission_actor& admission,
                          const config::address& where, const speech& say) {
  auto port =
    system.middleman().publish(admission, where.port, where.host.c_str(), true);
  if (!port)
    throw no_port(where, trouble_listening(where.host, where.port)
                           .value_or("it was in use a moment ago; try again"));
  auto gate = spawn<accept_gate_actor, accept_gate_state>(
    system, placement::scheduled,
    accept_gate_parts{admission, where.host, *port, say});
  return {*port, gate, [&system, admission, gate, port = *port] {
            caf::anon_send_exit(gate, caf::exit_reason::user_shutdown);
            system.middleman().unpublish(admission, port);
          }};
}

listening_ports publish(caf::actor_system& system,
                        const supervisor_actor& supervisor,
                        const admission_actor& admission,
                        const config::address& where, const speech& say) {
  auto out = open_port(system, admission, where, say);
  say("listening    on " +
      config::to_string(config::address{where.host, out.port}));
  put_under(supervisor, "admission", admission);
  put_under(supervisor, "accept gate", out.gate);
  return out;
}

} // namespace troupe::app
