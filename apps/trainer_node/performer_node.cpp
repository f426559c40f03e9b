// The process of a worker or an evaluator.

#include "actors/connector.hpp"
#include "actors/follower.hpp"
#include "actors/performers.hpp"
#include "actors/spawning.hpp"
#include "actors/supervisor.hpp"
#include "apps/trainer_node/node.hpp"
#include "apps/trainer_node/resources.hpp"
#include "config/cast.hpp"
#include "config/version.hpp"
#include "messages/protocol.hpp"
#include "models/registry.hpp"

#include <unistd.h>

namespace troupe::app {

namespace {

std::string name_of_process() {
  char host[256] = {};
  gethostname(host, sizeof host - 1);
  return std::string{host} + "/" + std::to_string(getpid());
}

proto::Hello make_hello(const config::resolved& config) {
  proto::Hello out;
  out.set_protocol(protocol_version);
  out.set_troupe_version(std::string{config::version()});
  out.set_role(config.values.what == config::role::worker ? "worker"
                                                          : "evaluator");
  out.set_name(name_of_process());
  for (auto& [key, value] : config::explicit_cast_settings(config)) {
    auto* one = out.add_explicit_();
    one->set_key(key);
    one->set_value(value);
  }
  return out;
}

/// The settings of this node, with those of the cast from the server.
config::settings join_settings(config::settings own,
                               const proto::Welcome& welcome) {
  config::pairs theirs;
  for (const auto& one : welcome.settings())
    theirs.emplace_back(one.key(), one.value());
  config::apply_cast_settings(own, theirs);
  return own;
}

} // namespace

node start_performer(caf::actor_system& system, const config::resolved& config,
                     const end_callback& on_end) {
  auto supervisor = spawn<supervisor_actor, supervisor_state>(
    system, placement::scheduled, supervisor_parts{on_end});
  const auto& settings = config.values;
  remote_connector_parts parts;
  parts.host = settings.cluster.host;
  parts.port = settings.cluster.port;
  parts.connect_timeout = settings.cluster.connect_timeout;
  parts.jitter_seed = static_cast<uint64_t>(getpid());
  if (settings.cluster.rank)
    parts.rank = worker_id{*settings.cluster.rank};
  parts.transport = settings.cluster.transport;
  parts.memory = shared_memory_for(settings.cluster);
  parts.hello = make_hello(config);
  parts.supervisor = supervisor;
  parts.make = [&system, settings, memory = parts.memory](
                 const proto::Welcome& welcome,
                 const connector_actor& home) -> performer {
    auto joined = join_settings(settings, welcome);
    computing_parts computing{
      joined, data::load_dataset(joined.data, joined.training.seed),
      threads_share(joined),
      memory ? transport::shared_or_heap(memory) : heap_memory()};
    models::require_suitable(joined.training.network,
                             computing.data.train->name(),
                             computing.data.train->shape());
    if (joined.what == config::role::worker)
      return make_worker(system, computing, home);
    return make_evaluator(system, computing, home);
  };
  auto connector = spawn<connector_actor, remote_connector_state>(
    system, placement::detached, std::move(parts));
  return {[connector] {
    anon_send(connector, ended_atom_v, run_end{});
  }};
}

node start_follower(caf::actor_system& system, const config::resolved& config,
                    const end_callback& on_end) {
  auto supervisor = spawn<supervisor_actor, supervisor_state>(
    system, placement::scheduled, supervisor_parts{on_end});
  const auto& settings = config.values;
  auto follower = spawn<follower_actor, follower_state>(
    system, placement::detached,
    follower_parts{settings, settings.evaluation.follow,
                   threads_share(settings), supervisor});
  return {[follower] {
    anon_send(follower, ended_atom_v, run_end{});
  }};
}

} // namespace troupe::app
