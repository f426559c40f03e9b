// The process of the parameter server, and of `--simulate`.

#include "actors/recording/console.hpp"
#include "actors/runtime/spawning.hpp"
#include "actors/server/parameter_server.hpp"
#include "actors/server/restore.hpp"
#include "actors/session/path_choice.hpp"
#include "apps/lab/replay/replay_driver.hpp"
#include "apps/startup/next_life.hpp"
#include "apps/startup/resources.hpp"
#include "apps/trainer_node/autocast.hpp"
#include "apps/trainer_node/external_process.hpp"
#include "apps/trainer_node/faulty_cluster.hpp"
#include "apps/trainer_node/front_door.hpp"
#include "apps/trainer_node/listening_ports.hpp"
#include "apps/trainer_node/node.hpp"
#include "apps/trainer_node/one_process_cluster.hpp"
#include "apps/trainer_node/origin.hpp"
#include "apps/trainer_node/replay.hpp"
#include "apps/trainer_node/segment_places.hpp"
#include "apps/trainer_node/server_life.hpp"
#include "apps/trainer_node/sizes.hpp"
#include "apps/trainer_node/tensor_ways.hpp"
#include "config/text/failure.hpp"
#include "messages/run_record.hpp"

#include <memory>
#include <optional>
#include <utility>

namespace troupe::app {

namespace {

using recording::say;

/// The parts of a replayed server, except for its actors. From now on its
/// events are compared with the event log.
replay::replay_driver_parts
make_replay_driver_parts(const replay_plan& plan,
                         const computing_parts& computing,
                         const external_compute& process,
                         parameter_server_parts& parts, const speech& say) {
  replay::replay_driver_parts out;
  out.event_log = plan.event_log;
  for (const auto& own : computing.own_data)
    out.own_data.push_back({own->size(), own->digest()});
  if (process.line)
    out.gradients =
      replay::recompute_in(process.line, process.memory, computing);
  else if (computing.data.train)
    out.gradients = replay::recompute_here(computing, plan.threads);
  out.weights = shape_of_weights(parts.settings.training, parts.classes);
  out.strict = plan.strict;
  out.say = say;
  out.began = std::make_shared<std::optional<caf::actor_clock::time_point>>();
  parts.began = [began = out.began] {
    return *began;
  };
  parts.event_log = [event_log = plan.event_log,
                     write = parts.event_log](proto::LogEvent& event) {
    if (write)
      write(event);
    event_log->check(event);
  };
  return out;
}

/// Publishes the admission for peers and for shards in processes of their own.
void publish_admission(caf::actor_system& system,
                       const parameter_server_parts& parts,
                       const computing_parts& computing,
                       const server_life& life, front_door& door,
                       const models::flat_layout& layout,
                       const std::shared_ptr<transport::shared_memory>& memory,
                       const gpu_paths& gpus) {
  const auto& cluster = parts.settings.cluster;
  auto supervisor = caf::actor_cast<supervisor_actor>(life.actors.front());
  admission_parts admission;
  admission.settings = parts.settings;
  admission.description = parts.description;
  admission.network =
    models::description_without_values(parts.settings.training.network);
  admission.weights = shape_of(layout);
  admission.whole = admission.weights;
  admission.server = life.with.lead;
  admission.coordinator = life.with.coordinator;
  admission.names = life.peers;
  admission.reception =
    open_reception(cluster, door.where().host, memory != nullptr);
  admission.memory = memory;
  admission.frozen = parts.frozen;
  admission.nccl = gpus.nccl;
  admission.collective = gpus.collective;
  module_owner owner{parameter_server_actor{life.with.lead},
                     {},
                     {0, layout.count()},
                     parts.modules};
  if (parts.remote_shards > 0) {
    auto ranges = cut_parameters(layout, cluster.shards);
    admission.weights.count -= ranges.front().first;
    owner.rank = 0;
    owner.range = {ranges.front().first, admission.weights.count};
    for (const auto& range : ranges)
      admission.shard_counts.push_back(range.count);
    auto roster = std::make_shared<shard_roster>();
    admission.roster = roster;
    admission.registrar = spawn<shard_registrar_actor, shard_registrar_state>(
      system, placement::scheduled,
      shard_registrar_parts{life.with.lead, make_beginnings(parts), roster,
                            cluster.liveness_timeout,
                            survives_losses(parts.settings),
                            this_life() ? time_to_come(parts.settings) : 0});
    put_under(supervisor, "registrar of the shards", admission.registrar);
    // Without a lock two nodes could lead, each without the other.
    auto locked = parts.lock && parts.lock->warning().empty();
    if (survives_losses(parts.settings) && locked)
      admission.run_directory = absolute(life.directory).string();
    admission.nodes = nodes_of_this_life();
  }
  admission.modules = module_maker(system, computing, owner);
  if (admission.modules) {
    admission.weights.count = computing.plan->own().count;
    admission.activations = {admission.weights.type,
                             computing.plan->most_activations};
  }
  admission.parameters = admission.weights.count - statistics_of(layout);
  admission.codec = codec_of(parts.settings, admission.weights, layout);
  door.leave_to(spawn<admission_actor, admission_state>(
                  system, placement::scheduled, std::move(admission)),
                supervisor);
  say("listening    on " + config::to_string(door.where()));
}

/// The program that computes the gradients of a replay once more, if the
/// settings name one. It is told how the replay ends.
external_compute process_for_replay(const computing_parts& computing,
                                    server_options& options) {
  auto out = process_for(computing.settings, options.interrupted);
  if (!out.line)
    return out;
  require_same_samples(out, *computing.data.train);
  out.memory = std::make_shared<transport::shared_memory>();
  options.on_end = [line = out.line,
                    then = options.on_end](const run_end& how) {
    line->end(how);
    then(how);
  };
  return out;
}

/// Starts a replay driver instead of the coordinator and all participants.
node start_replay(caf::actor_system& system, server_options options,
                  const computing_parts& computing,
                  parameter_server_parts parts, const origin& from) {
  auto process = process_for_replay(computing, options);
  auto replay_driver = make_replay_driver_parts(
    *options.replay, computing, process, parts, voice_of(options));
  server_actors all{system, options, std::move(parts), from};
  replay_driver.lead = all.lead;
  replay_driver.supervisor = all.supervisor;
  all.guard("replay driver",
            spawn<replay::replay_driver_actor, replay::replay_driver_state>(
              system, placement::scheduled, std::move(replay_driver)));
  return {[lead = all.lead] {
    anon_send(lead, stop_atom_v);
  }};
}

/// Starts the next life of a server that died, as `--resume auto` does.
server_life reopen_server(caf::actor_system& system, config::resolved config,
                          const server_options& options, const run_data& data,
                          const std::shared_ptr<simulation::machine>& machine,
                          const std::shared_ptr<const config::run_lock>& lock,
                          const std::shared_ptr<event_subscriber>& watch,
                          const module_roster_ptr& modules) {
  auto& training = config.values.training;
  training.resume = "auto";
  training.overwrite = false;
  auto tell = voice_of(options);
  auto from = find_origin(config.values, tell, {lock, nullptr});
  auto parts = make_server_parts(config, data, from);
  parts.observer = watch;
  parts.modules = modules;
  take_first_weights(parts, config, from, tell);
  settle(from, parts, tell);
  keep_event_log(parts, from, threads_share(config.values), tell);
  return open_server(system, options, machine, std::move(parts), from);
}

node start_with_faults(caf::actor_system& system,
                       const config::resolved& config,
                       const server_options& options, const run_data& data,
                       const computing_parts& computing,
                       const std::shared_ptr<simulation::machine>& machine,
                       const payload_shape& weights, const compression& packs,
                       parameter_server_parts first, const origin& from) {
  auto later = config;
  later.values.training.train_dir = from.directory.path.string();
  auto samples = first.samples;
  auto modules = first.modules;
  auto open = [=, &system](incarnation life,
                           const std::shared_ptr<event_subscriber>& watch,
                           const end_callback& on_end) mutable {
    auto its = options;
    its.on_end = on_end;
    if (life.value > 1)
      return reopen_server(system, later, its, data, machine,
                           from.directory.lock, watch, modules);
    auto parts = std::exchange(first, {}); // It holds the first weights.
    parts.observer = watch;
    return open_server(system, its, machine, std::move(parts), from);
  };
  return start_faulty_cluster({system, computing, machine, weights, packs,
                               samples, modules, std::move(open),
                               options.on_end});
}

} // namespace

node start_server(caf::actor_system& system, const config::resolved& given,
                  const server_options& options) {
  auto config = given;
  const auto& settings = config.values;
  auto simulate = settings.what == config::role::simulate;
  auto tell = voice_of(options);
  std::optional<front_door> door;
  if (!simulate)
    door.emplace(system, listens_at(settings.cluster), say);
  auto data = load_data(settings);
  for (const auto& set : {data.sets.train, data.sets.test})
    if (set && !set->without().empty())
      tell("left out     " +
           std::string{set == data.sets.train ? "train" : "test"} + ": " +
           set->without());
  auto replay = options.replay;
  if (replay)
    require_same_run(*replay, make_server_parts(config, data, {}));
  auto layout = models::layout_of(settings.training, data.classes);
  auto weights = shape_of(layout);
  require_shards(config, layout);
  auto from =
    replay ? origin_of(*replay) : find_origin(settings, tell, options.earlier);
  if (auto next = this_life(); next && from.checkpoint)
    require_same_run(*next, from.run_id);
  auto unstarted = [&](const run_end& how) {
    options.on_end(how);
    return node{[] {
    }};
  };
  auto stopped = [&] {
    return unstarted({static_cast<uint8_t>(exit_status::try_again),
                      "stopped by a signal before the run began"});
  };
  if (!decide_autocast(system, config, data, from, door ? &*door : nullptr,
                       options.interrupted, tell))
    return stopped();
  auto parts = make_server_parts(config, data, from);
  if (replay) {
    const auto& begin = replay->event_log->begin();
    parts.description.changes = description_of(begin).changes;
    parts.rules = replay->rules;
  }
  if (from.checkpoint)
    require_same_run(parts);
  take_first_weights(parts, config, from, tell);
  if (replay)
    require_same_run(*replay, parts);
  if (config::has_remote_shards(settings))
    parts.remote_shards = settings.cluster.shards - 1;
  if (auto reason = complete_already(parts, from)) {
    tell("complete     " + *reason + " before; raise the limit to go on");
    return unstarted({});
  }
  if (replay)
    fetch_best(*replay, from.directory.path);
  if (options.interrupted && options.interrupted())
    return stopped(); // From now on a signal stops the run.
  settle(from, parts, tell);

  computing_parts computing{settings,
                            data.sets,
                            replay ? replay->threads : threads_share(settings),
                            heap_memory(),
                            data.own,
                            parts.frozen};
  if (simulate || config::may_have_modules(settings))
    computing.plan = make_plan(settings, data.classes, data.description.shape);
  if (has_remote_modules(computing))
    parts.modules = std::make_shared<module_roster>();
  keep_event_log(parts, from, computing.threads, tell);
  if (replay)
    return start_replay(system, options, computing, std::move(parts), from);
  std::shared_ptr<simulation::machine> machine;
  if (is_virtual(settings)) {
    machine = simulation::make_machine(computing);
    machine->watch = options.watch;
  }
  auto packs = compression_of(settings, from, layout);
  if (has_faults(settings))
    return start_with_faults(system, config, options, data, computing, machine,
                             weights, packs, std::move(parts), from);
  std::shared_ptr<transport::shared_memory> memory;
  if (!simulate)
    memory = find_shared_memory(settings.cluster, weights, tell);
  if (memory)
    parts.memory = transport::shared_or_heap(memory);
  gpu_paths gpus;
  if (!simulate)
    gpus = find_gpus(settings, layout, say);
  parts.sums = gpus.collective;
  auto life = open_server(system, options, machine, parts, from);
  const auto& with = life.with;
  if (machine) {
    start_members(system, computing, machine, weights, packs, parts.modules,
                  with);
  } else if (simulate) {
    start_members(system, computing, packs, parts.modules, with);
  } else {
    publish_admission(system, parts, computing, life, *door, layout, memory,
                      gpus);
  }
  return {[lead = with.lead] { anon_send(lead, stop_atom_v); },
          from.directory.path, from.directory.lock};
}

} // namespace troupe::app
