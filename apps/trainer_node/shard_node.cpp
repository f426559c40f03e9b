// The process of a parameter server shard with a rank above 0.

#include "actors/recording/console.hpp"
#include "actors/runtime/spawning.hpp"
#include "actors/runtime/supervisor.hpp"
#include "actors/session/shard_session_client.hpp"
#include "actors/shards/remote_shard.hpp"
#include "actors/weights/server_model.hpp"
#include "apps/startup/hello.hpp"
#include "apps/startup/listening_ports.hpp"
#include "apps/startup/meeting_file.hpp"
#include "apps/startup/next_life.hpp"
#include "apps/startup/own_address.hpp"
#include "apps/startup/resources.hpp"
#include "apps/trainer_node/node.hpp"
#include "apps/trainer_node/segment_places.hpp"
#include "apps/trainer_node/tensor_ways.hpp"
#include "messages/run_record.hpp"

#include <unistd.h>

#include <cstring>
#include <functional>
#include <utility>

namespace troupe::app {

namespace {

using recording::say;

struct shard_options {
  config::settings settings; ///< Of this node only.
  supervisor_actor supervisor;
  std::function<void(const run_end&)> on_end;
  transport::gpu_exchange_ptr exchange; ///< Or null.
  transport::credentials own;
  known_nodes_ptr nodes;
};

/// The elements of the flat weights that this shard has.
models::element_range range_of(const config::settings& settings,
                               int64_t classes) {
  auto layout = models::layout_of(settings.training, classes);
  return cut_parameters(layout, settings.cluster.shards)
    .at(*settings.cluster.rank);
}

/// Meets the other shards over NCCL, if the lead wants that. Returns whether it
/// does.
bool join_exchange(const shard_options& options,
                   const config::settings& settings,
                   const proto::Welcome& welcome) {
  transport::exchange_terms terms;
  const auto& id = welcome.gpu_group();
  if (!options.exchange || id.size() != terms.id.size())
    return false;
  std::memcpy(terms.id.data(), id.data(), id.size());
  auto layout =
    models::layout_of(settings.training, description_of(welcome).data.classes);
  open_exchange(*options.exchange, terms, settings, layout, say);
  return true;
}

/// The shard for one life of the lead, and its admission for workers.
open_shard make_shard(caf::actor_system& system, const shard_options& options,
                      const proto::Welcome& welcome,
                      const shard_registrar_actor& registrar) {
  auto settings = join_settings(options.settings, welcome);
  auto type = static_cast<element_type>(welcome.element_type());
  const auto& cluster = settings.cluster;
  auto where = listens_at(cluster);
  admission_parts admission;
  admission.weights = {type, welcome.parameters()};
  admission.whole = {type, welcome.region()};
  admission.parameters = admission.weights.count;
  if (!options.exchange)
    admission.gpus = gpu_network_for(settings, say);
  admission.fragments.assign(welcome.fragments().begin(),
                             welcome.fragments().end());
  admission.codec =
    transport::make_codec(config::parse_compression(cluster.compression),
                          admission.weights.count, 0, admission.fragments);
  admission.memory = find_shared_memory(settings, admission.weights, say);
  remote_shard_parts parts;
  parts.rank = shard_id{*cluster.rank};
  parts.settings = settings.training;
  parts.weights = admission.weights;
  parts.fragments = admission.fragments;
  parts.threads = threads_share(settings);
  parts.across = lanes_for(settings);
  if (admission.memory)
    parts.memory = transport::shared_or_heap(admission.memory);
  parts.registrar = registrar;
  if (join_exchange(options, settings, welcome))
    parts.exchange = spawn_exchange_front(system, options.exchange);
  parts.on_end = options.on_end;
  computing_parts computing;
  computing.settings = settings;
  computing.threads = parts.threads;
  if (config::may_have_modules(settings)) {
    auto data = description_of(welcome).data;
    computing.plan = make_plan(settings, data.classes, data.shape);
    choose_devices(computing);
    parts.modules = std::make_shared<module_roster>();
  }
  auto modules = parts.modules;
  auto shard = spawn<remote_shard_actor, remote_shard_state>(
    system, placement::scheduled, std::move(parts));
  put_under(options.supervisor,
            "parameter server shard " + std::to_string(*cluster.rank), shard);
  if (computing.plan) {
    auto range = range_of(settings, computing.plan->classes);
    admission.modules = module_maker(
      system, computing,
      {parameter_server_actor{shard}, cluster.rank, range, modules});
    // The lead has all elements that are a worker's own.
    admission.weights.count = 0;
    admission.parameters = 0;
    admission.activations = {type, computing.plan->most_activations};
  }
  admission.settings = settings;
  admission.description = description_of(welcome);
  admission.server = shard;
  admission.nodes = nodes_of_this_life();
  auto acceptor = open_port(where, options.own, say);
  auto given = std::make_shared<control::grants>();
  admission.given = given;
  admission.paths =
    offered_paths(cluster, acceptor, admission.memory != nullptr);
  auto keeper = spawn<admission_actor, admission_state>(
    system, placement::scheduled, std::move(admission));
  put_under(options.supervisor, "admission", keeper);
  auto door = publish(system, keeper, acceptor, given, say);
  where.port = acceptor->port();
  auto advertised = advertised_at(cluster, where, false);
  options.nodes->note_listening(where, advertised);
  say(listening_line(where, advertised));
  return {shard, advertised, [acceptor, door] {
            acceptor->close();
          }};
}

} // namespace

node start_shard(caf::actor_system& system, const config::resolved& config,
                 const node_options& options) {
  const auto& nodes = options.nodes;
  const auto& settings = config.values;
  auto where = listens_at(settings.cluster);
  require_port(where, options.own);
  advertised_at(settings.cluster, where, false); // Throws now, not later.
  auto supervisor = spawn<supervisor_actor, supervisor_state>(
    system, placement::scheduled, supervisor_parts{options.on_end});
  shard_session_client_parts parts;
  parts.host = settings.cluster.host;
  parts.port = settings.cluster.port;
  parts.rank = shard_id{*settings.cluster.rank};
  parts.connect_timeout = connect_timeout_of(settings);
  parts.own = options.own;
  parts.begins_anew = this_life().has_value();
  parts.jitter_seed = static_cast<uint64_t>(getpid());
  parts.hello = make_hello(config);
  parts.hello.set_rank(parts.rank.value);
  parts.hello.set_peers(settings.cluster.shards);
  parts.supervisor = supervisor;
  parts.complete =
    [nodes, as = worker_id{parts.rank.value}](const proto::Welcome& welcome,
                                              const config::address& lead) {
      nodes->note(welcome, lead, as);
    };
  parts.without_lead = [nodes](const std::string& why) {
    return nodes->without_lead(why);
  };
  parts.address = [nodes] {
    return nodes->address();
  };
  parts.elsewhere = [nodes](const proto::Welcome& run) {
    return nodes->go_elsewhere(run);
  };
  if (survives_losses(settings)) {
    parts.holder_of_lock = [nodes] {
      return nodes->holder_of_lock();
    };
    parts.others = [nodes] {
      return nodes->others();
    };
  }
  parts.patience_with_lock = patience_with_lock(settings);
  parts.waits_after_failure = !config::is_peer(settings);
  if (auto place = config::find_meeting(settings.cluster);
      place && !config::is_peer(settings))
    parts.look_up = [place = *place] {
      return read_meeting_file(place);
    };
  parts.make = [&system, settings, supervisor, exchange = options.exchange,
                own = options.own,
                nodes](const proto::Welcome& welcome,
                       const shard_registrar_actor& registrar,
                       const session_client_actor& session) {
    return make_shard(
      system,
      {settings, supervisor,
       [session](const run_end& how) { anon_send(session, ended_atom_v, how); },
       exchange, own, nodes},
      welcome, registrar);
  };
  auto session_client = spawn<session_client_actor, shard_session_client_state>(
    system, placement::detached, std::move(parts));
  return {[session_client] {
    anon_send(session_client, stop_atom_v);
  }};
}

} // namespace troupe::app
