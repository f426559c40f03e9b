#include "apps/startup/listening_ports.hpp"

#include "apps/startup/resources.hpp"
#include "config/schema/paths.hpp"
#include "config/text/failure.hpp"
#include "messages/transport/wire/host_address.hpp"
#include "messages/transport/wire/refusal_notes.hpp"

namespace troupe::app {

namespace {

run_error no_port(const config::address& where, const std::string& why) {
  return run_error("cannot listen on " + config::to_string(where) + ": " + why);
}

} // namespace

void require_port(const config::address& where,
                  const transport::credentials& own) try {
  transport::listen_at(where.host, where.port, own.leaves_host());
} catch (const transport::path_error& why) {
  throw no_port(where, why.what());
}

std::string listening_line(const config::address& bound,
                           const config::address& advertised) {
  return "listening    on " + config::to_string(bound) +
         (advertised == bound
            ? ""
            : "; others are told " + config::to_string(advertised));
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
  throw no_port(where, why.what());
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
