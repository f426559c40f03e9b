// The process of the parameter server, and of `--simulate` in real time.

#include "actors/recording/console.hpp"
#include "actors/runtime/spawning.hpp"
#include "actors/server/restore.hpp"
#include "actors/session/path_choice.hpp"
#include "apps/startup/front_door.hpp"
#include "apps/startup/next_life.hpp"
#include "apps/startup/own_address.hpp"
#include "apps/startup/resources.hpp"
#include "apps/trainer_node/autocast.hpp"
#include "apps/trainer_node/node.hpp"
#include "apps/trainer_node/one_process_cluster.hpp"
#include "apps/trainer_node/segment_places.hpp"
#include "apps/trainer_node/server_life.hpp"
#include "apps/trainer_node/server_plan.hpp"
#include "apps/trainer_node/tensor_ways.hpp"
#include "messages/run_record.hpp"

#include <memory>
#include <optional>
#include <utility>

namespace troupe::app {

namespace {

using recording::say;

/// How the tensors of this process travel.
struct ways {
  std::shared_ptr<transport::shared_memory> memory; ///< Or null.
  transport::gpu_network_ptr gpus;                  ///< Or null.
  std::optional<transport::group_id> gpu_group{};
};

ways find_ways(const server_plan& plan,
               const transport::gpu_exchange_ptr& exchange) {
  const auto& settings = plan.config.values;
  ways out{find_shared_memory(settings, plan.weights(), say),
           exchange ? nullptr : gpu_network_for(settings, say)};
  if (!exchange)
    return out;
  transport::exchange_terms terms;
  terms.id = exchange->make_id();
  out.gpu_group = terms.id;
  open_exchange(*exchange, terms, settings, plan.layout, say);
  return out;
}

/// Where shards in processes of their own register.
shard_registrar_actor
spawn_registrar(caf::actor_system& system, const server_plan& plan,
                const server_life& life,
                const std::shared_ptr<shard_roster>& roster) {
  const auto& settings = plan.config.values;
  return spawn<shard_registrar_actor, shard_registrar_state>(
    system, placement::scheduled,
    shard_registrar_parts{life.with.lead, make_beginnings(plan.parts), roster,
                          settings.cluster.liveness_timeout,
                          survives_losses(settings),
                          this_life() ? time_to_come(settings) : 0,
                          plan.parts.exchange, settings.cluster.leaves_host()});
}

/// What the server tells the nodes that come to it.
admission_parts make_admission_parts(caf::actor_system& system,
                                     const server_plan& plan,
                                     const server_life& life,
                                     const ways& with) {
  const auto& settings = plan.parts.settings;
  const auto& layout = plan.layout;
  admission_parts out;
  out.settings = settings;
  out.description = plan.parts.description;
  out.network = models::description_without_values(settings.training.network);
  out.weights = plan.weights();
  out.whole = out.weights;
  out.server = life.with.lead;
  out.coordinator = life.with.coordinator;
  out.names = life.peers;
  out.memory = with.memory;
  out.frozen = plan.parts.from.frozen;
  out.gpus = with.gpus;
  out.gpu_group = with.gpu_group;
  module_owner owner{parameter_server_actor{life.with.lead},
                     {},
                     {0, layout.count()},
                     plan.parts.modules};
  if (plan.parts.remote_shards() > 0) {
    auto ranges = cut_parameters(layout, settings.cluster.shards);
    out.weights.count -= ranges.front().first;
    owner.rank = 0;
    owner.range = {ranges.front().first, out.weights.count};
    for (const auto& range : ranges) {
      out.shard_counts.push_back(range.count);
      out.shard_fragments.push_back(fragments_of(settings, layout, range));
    }
    auto roster = std::make_shared<shard_roster>();
    out.roster = roster;
    out.registrar = spawn_registrar(system, plan, life, roster);
    // Without a lock two nodes could lead, each without the other.
    const auto& lock = plan.from.directory.lock;
    auto locked = lock && lock->warning().empty();
    if (survives_losses(settings) && locked)
      out.run_directory = absolute(life.directory).string();
    out.nodes = nodes_of_this_life();
  }
  out.modules = module_maker(system, plan.computing, owner);
  if (out.modules) {
    const auto& cut = *plan.computing.plan;
    out.weights.count = cut.own().count;
    out.activations = {out.weights.type, cut.most_activations};
  }
  out.parameters = out.weights.count - statistics_of(layout);
  out.fragments = fragments_of(
    settings, layout, {layout.count() - out.weights.count, out.weights.count});
  out.codec = codec_of(settings, out.weights, layout);
  return out;
}

/// Lets peers, and shards in processes of their own, in by the door.
void publish_admission(caf::actor_system& system, const server_life& life,
                       admission_parts parts, front_door& door,
                       const config::address& advertised) {
  auto supervisor = caf::actor_cast<supervisor_actor>(life.actors.front());
  // Without such a setting nobody is told, but for peers.
  const auto& cluster = parts.settings.cluster;
  auto tells = !cluster.advertise.empty() || !cluster.interface.empty();
  auto line = listening_line(door.where(), tells ? advertised : door.where());
  parts.given = door.given();
  parts.paths = offered_paths(parts.settings.cluster, door.acceptor(),
                              parts.memory != nullptr);
  if (parts.registrar)
    put_under(supervisor, "registrar of the shards", parts.registrar);
  door.leave_to(spawn<admission_actor, admission_state>(
                  system, placement::scheduled, std::move(parts)),
                supervisor);
  say(line);
}

/// The server of a run that is not to begin.
node unstarted(const server_options& options, const run_end& how) {
  options.on_end(how);
  return {[] {
  }};
}

} // namespace

node start_server(caf::actor_system& system, const config::resolved& given,
                  const server_options& options) {
  auto config = given;
  const auto& settings = config.values;
  auto alone = settings.what == config::role::simulate;
  std::optional<front_door> door;
  config::address advertised;
  if (!alone) {
    door.emplace(system, listens_at(settings.cluster), options.own, say);
    advertised = advertised_at(settings.cluster, door->where(), true);
    options.nodes->note_listening(door->where(), advertised);
  }
  auto data = load_data(settings, say);
  require_shards(config, data);
  auto from = find_origin(settings, say, options.earlier);
  if (auto next = this_life(); next && from.checkpoint)
    require_same_run(*next, from.run_id);
  auto is_decided =
    decide_autocast({system, door ? &*door : nullptr, options.interrupted, say},
                    config, data, from);
  if (!is_decided)
    return unstarted(options, stopped_before_begin());
  auto plan = plan_server(config, data, from, say);
  plan.parts.exchange = options.exchange;
  if (auto how = end_before_begin(plan, options.interrupted, say))
    return unstarted(options, *how);
  choose_devices(plan.computing);
  begin(plan, say);
  ways with;
  if (!alone)
    with = find_ways(plan, options.exchange);
  auto parts = plan.parts;
  if (with.memory)
    parts.memory = transport::shared_or_heap(with.memory);
  auto life =
    open_server(system, {options.on_end}, std::move(parts), plan.from);
  plan.computing.carried = store_of(settings, plan.from);
  if (alone)
    start_members(system, plan.computing,
                  compression_of(settings, plan.from, plan.layout),
                  plan.parts.modules, life.with);
  else
    publish_admission(system, life,
                      make_admission_parts(system, plan, life, with), *door,
                      advertised);
  return {[lead = life.with.lead] { anon_send(lead, stop_atom_v); },
          plan.from.directory.path, plan.from.directory.lock, plan.from.life};
}

} // namespace troupe::app
