#include "apps/startup/listening_ports.hpp"

#include "apps/startup/resources.hpp"
#include "config/schema/paths.hpp"
#include "config/text/failure.hpp"
#include "messages/transport/wire/refusal_notes.hpp"

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

path_offers offered_paths(const config::cluster_settings& cluster,
                          std::shared_ptr<transport::acceptor> acceptor,
                          bool shares_memory) {
  auto streams = config::takes_paths(cluster.transport, config::reach::network);
  return {std::move(acceptor), streams, shares_memory};
}

std::shared_ptr<transport::acceptor>
open_port(const config::address& where, const transport::credentials& own,
          const speech& say) try {
  transport::acceptor_terms terms;
  terms.host = where.host;
  terms.port = where.port;
  terms.own = own;
  terms.say = say;
  return std::make_shared<transport::acceptor>(std::move(terms));
} catch (const transport::path_error& why) {
  throw no_port(where,
                trouble_listening(where.host, where.port).value_or(why.what()));
}

std::shared_ptr<control::door>
publish(caf::actor_system& system, const admission_actor& admission,
        const std::shared_ptr<transport::acceptor>& acceptor,
        const control::grants_ptr& given, const speech& say) {
  control::door_parts parts;
  parts.published = caf::actor_cast<caf::strong_actor_ptr>(admission);
  parts.types = system.message_types<admission_actor>();
  parts.acceptor = acceptor;
  parts.given = given;
  parts.tells = [notes = std::make_shared<transport::refusal_notes>(say)](
                  const std::string& line) {
    notes->note(line);
  };
  return std::make_shared<control::door>(system, std::move(parts));
}

} // namespace troupe::app
