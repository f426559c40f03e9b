#include "apps/trainer_node/server_life.hpp"

#include "actors/admission/coordinator.hpp"
#include "actors/recording/console.hpp"
#include "actors/recording/log_lines.hpp"
#include "actors/recording/recorder.hpp"
#include "actors/runtime/spawning.hpp"
#include "actors/server/checkpoint_writer.hpp"
#include "actors/server/restore_ledger.hpp"
#include "apps/startup/event_log.hpp"
#include "apps/startup/resources.hpp"
#include "config/sources/resolve.hpp"

#include <cstdlib>
#include <map>
#include <optional>
#include <utility>

namespace troupe::app {

namespace {

recorder_parts make_recorder_parts(const config::settings& settings,
                                   const origin& from,
                                   const std::string& dataset, bool silent) {
  recorder_parts out;
  out.folder = from.directory.path;
  out.claim = from.claim;
  out.network = settings.training.network;
  out.dataset = dataset;
  out.workers = settings.cluster.workers;
  out.shards = settings.cluster.shards;
  out.seed = settings.training.seed;
  auto as_json = settings.cluster.log_format == config::log_form::json;
  out.terminal_width = as_json ? 0 : terminal_width();
  out.started_at = is_virtual(settings) ? 0 : recording::time_of_day();
  out.silent = silent;
  out.names_processes = !is_virtual(settings);
  if (const auto* launch = std::getenv(recording::failures_variable);
      launch != nullptr && !is_virtual(settings))
    out.failures = launch;
  out.without_progress = as_json && is_virtual(settings);
  out.gathers = is_virtual(settings) && settings.simulation.gradients == "none";
  if (from.checkpoint)
    out.resume_step = from.checkpoint->manifest.step();
  return out;
}

/// Where each rank has a part of the data there are no further ranks: a worker
/// beyond them waits for a place. Elsewhere those that a launch has started
/// keep their ranks for when they are started again. A run of varying size that
/// goes on is like one that has paused: it waits for the fewest workers alone.
cores::membership_rules membership_rules_of(const config::settings& settings,
                                            bool goes_on, bool launched) {
  cores::membership_rules out;
  out.workers = settings.cluster.workers;
  out.join_timeout = settings.cluster.join_timeout;
  if (settings.cluster.is_elastic()) {
    out.fewest = settings.cluster.fewest_workers();
    out.most = settings.cluster.max_workers.value_or(out.most);
    if (goes_on)
      out.workers = out.fewest;
  }
  auto leased = settings.data.sharding == config::sharding_kind::leased;
  if (!leased)
    out.max_ranks = settings.cluster.workers;
  if (config::is_peer(settings) || (launched && leased))
    out.kept = settings.cluster.workers;
  return out;
}

std::optional<cores::part_assignment>
assignment_of(const config::settings& settings, const origin& from) {
  if (settings.data.sharding != config::sharding_kind::local)
    return std::nullopt;
  std::map<worker_id, owned_data> known;
  if (from.checkpoint)
    known = data_of_ranks(from.checkpoint->manifest.ledger());
  return cores::part_assignment{settings.cluster.workers, std::move(known)};
}

} // namespace

speech voice(bool silent) {
  if (silent)
    return [](const std::string&) {
    };
  return recording::say;
}

void keep_event_log(parameter_server_parts& parts, const origin& from,
                    int threads, const speech& say) {
  if (parts.settings.training.tape)
    parts.event_log = open_event_log(from.directory.path, parts, threads, say);
}

server_actors::server_actors(caf::actor_system& system,
                             const life_options& options,
                             parameter_server_parts parts, const origin& from)
  : supervisor(spawn<supervisor_actor, supervisor_state>(
      system, placement::scheduled, supervisor_parts{options.on_end})),
    peers(std::make_shared<recording::peer_names>()) {
  parts.peers = peers;
  auto records =
    make_recorder_parts(parts.settings, from, parts.data.name, options.silent);
  records.peers = peers;
  auto recorder = spawn<recorder_actor, recorder_state>(
    system, placement::detached, std::move(records));
  auto writer = spawn<checkpoint_writer_actor, checkpoint_writer_state>(
    system, placement::detached,
    checkpoint_writer_parts{from.checkpoints(), parts.settings.checkpoint.keep,
                            from.claim});
  parts.recorder =
    options.before_recorder ? options.before_recorder(recorder) : recorder;
  parts.writer = writer;
  if (!virtual_time::rules(system)) {
    parts.across = lanes_for(parts.settings);
  } else if (!options.before_recorder) {
    // All actors share one thread, on which the recorder takes no time; and a
    // replay must handle messages in their order.
    parts.notes = recording::note_window::endless();
  }
  auto front = caf::actor_cast<caf::strong_actor_ptr>(parts.recorder);
  lead = spawn<lead_actor, parameter_server_state>(system, placement::scheduled,
                                                   std::move(parts));
  actors.push_back(caf::actor_cast<caf::strong_actor_ptr>(supervisor));
  actors.push_back(front); // It may be the recorder itself.
  guard("recorder", recorder);
  guard("checkpoint writer", writer);
  guard("parameter server", lead);
  voice(options.silent)("run          " + from.directory.path.string());
}

server_life open_server(caf::actor_system& system, const life_options& options,
                        parameter_server_parts parts, const origin& from) {
  auto settings = parts.settings;
  // Under the virtual clock without faults an actor is silent only when it is
  // dead, and its death is reported.
  auto pings = !is_virtual(settings) || has_faults(settings);
  parts.watches = pings;
  auto launched =
    config::process_environment().contains(config::launched_variable);
  parts.launched = launched;
  server_actors all{system, options, std::move(parts), from};
  auto coordinator = spawn<coordinator_actor, coordinator_state>(
    system, placement::scheduled,
    coordinator_parts{
      membership_rules_of(settings, from.checkpoint != nullptr, launched),
      pings ? settings.cluster.liveness_timeout : 0, from.life, all.lead,
      all.supervisor, assignment_of(settings, from),
      outlived_by_nodes(settings),
      settings.cluster.hang_dump && !is_virtual(settings),
      config::is_peer(settings) ? settings.cluster.workers : 0});
  all.guard("coordinator", coordinator);
  return {{all.lead, coordinator},
          std::move(all.actors),
          from.directory.path,
          all.peers};
}

} // namespace troupe::app
