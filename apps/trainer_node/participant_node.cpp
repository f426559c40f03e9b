// The process of a worker or an evaluator.

#include "actors/evaluator/follower.hpp"
#include "actors/own_loop/training.hpp"
#include "actors/runtime/spawning.hpp"
#include "actors/runtime/supervisor.hpp"
#include "actors/session/session_client.hpp"
#include "actors/user_process/frame_reader.hpp"
#include "apps/startup/hello.hpp"
#include "apps/startup/meeting_file.hpp"
#include "apps/startup/next_life.hpp"
#include "apps/startup/resources.hpp"
#include "apps/trainer_node/external_process.hpp"
#include "apps/trainer_node/node.hpp"
#include "apps/trainer_node/participants.hpp"
#include "apps/trainer_node/segment_places.hpp"
#include "config/runs/shared_settings.hpp"
#include "config/sources/launcher.hpp"
#include "config/text/failure.hpp"
#include "config/text/text.hpp"
#include "config/values/external.hpp"
#include "data/describe.hpp"
#include "messages/run_record.hpp"
#include "models/engine/bfloat16_gain.hpp"
#include "models/networks/registry.hpp"

#include <ATen/Parallel.h>
#include <unistd.h>

#include <atomic>
#include <memory>
#include <tuple>
#include <utility>

namespace troupe::app {

namespace {

/// A lease is a range of samples, and a score covers all test samples, so the
/// data that nodes use must be the same on all. Other files do not matter.
void require_same_data(const computing_parts& computing,
                       const proto::Welcome& welcome) {
  auto run = description_of(welcome);
  config::run_description here;
  auto trains = computing.settings.what == config::role::worker;
  here.data = data::describe(trains ? computing.data.train.get() : nullptr,
                             trains ? nullptr : computing.data.test.get());
  auto all = config::differences(run, here, config::relation::join);
  if (all.empty())
    return;
  const auto& settings = computing.settings.data;
  throw run_error(
    (settings.data_dir.empty() ? settings.dataset : settings.data_dir) +
    ": is other data than the parameter server's: " +
    config::to_string(all.front()) + "; give all nodes the same");
}

/// What bfloat16 does to the speed of this worker, for `--autocast auto`. To be
/// called on a thread of its own.
double measure_bfloat16(const config::settings& settings,
                        const proto::Welcome& welcome) {
  auto joined = join_settings(settings, welcome);
  auto data = description_of(welcome).data;
  at::set_num_threads(threads_share(joined));
  return models::bfloat16_gain(joined.training, data.shape, data.classes);
}

} // namespace

node start_participant(caf::actor_system& system,
                       const config::resolved& config,
                       const end_callback& on_end, const known_nodes_ptr& nodes,
                       const std::function<bool()>& interrupted) {
  const auto& settings = config.values;
  auto process = process_for(settings, interrupted);
  auto supervisor = spawn<supervisor_actor, supervisor_state>(
    system, placement::scheduled,
    supervisor_parts{[on_end, line = process.line](const run_end& how) {
      if (line)
        line->end(how);
      on_end(how);
    }});
  remote_session_client_parts parts;
  parts.host = settings.cluster.host;
  parts.port = settings.cluster.port;
  parts.connect_timeout = settings.cluster.connect_timeout;
  parts.jitter_seed = static_cast<uint64_t>(getpid());
  if (settings.cluster.rank)
    parts.rank = worker_id{*settings.cluster.rank};
  parts.transport = settings.cluster.transport;
  parts.overlap = settings.cluster.overlap;
  parts.memory = shared_memory_for(settings.cluster);
  if (process.line) {
    parts.overlap = config::overlap_rule::off; // It takes whole tensors.
    if (process.said.leases > 0)
      parts.leases = process.said.leases;
    parts.takes_last = true;
    process.memory = parts.memory
                       ? parts.memory
                       : std::make_shared<transport::shared_memory>();
    process.memory->keep_foreign_files();
    // Of those that can change, a process was told no other.
    parts.goes_on = [](const std::string& key) {
      return key != "training.batch-size";
    };
  }
  if (settings.what == config::role::worker)
    parts.nccl = nccl_for(settings);
  parts.hello = make_hello(config);
  parts.bfloat16_gain = [settings](const proto::Welcome& welcome) {
    return measure_bfloat16(settings, welcome);
  };
  parts.feedback_store = {
    settings.training.train_dir, settings.checkpoint.keep, {}};
  parts.awaits_score =
    remote::registered_training() != nullptr || settings.cluster.join;
  parts.supervisor = supervisor;
  parts.on_place = [nodes, line = process.line](const proto::Welcome& welcome,
                                                const config::address& lead,
                                                worker_id as) {
    nodes->note(welcome, lead, as);
    if (line)
      line->send(external::process_frame_kind::place, as.value);
  };
  // The worker of a node with a shard ends with that.
  parts.follows =
    settings.what == config::role::evaluator || settings.cluster.join;
  if (auto file = config::find_meeting_file(settings.cluster);
      file && parts.follows)
    parts.look_up = [file] {
      return read_meeting_file(*file);
    };
  parts.begins_anew = this_life().has_value();
  parts.insecure_network = settings.cluster.insecure_network;
  auto begun = std::make_shared<std::atomic<bool>>(false);
  auto owned = std::make_shared<owned_data>();
  parts.owns = [owned] {
    return *owned;
  };
  parts.make = [&system, settings, owned, process, memory = parts.memory,
                begun](const proto::Welcome& welcome,
                       const session_client_actor& session,
                       const payload& frozen) -> participant {
    // The process has the leases and the memory of the run before.
    if (process.line && begun->exchange(true))
      throw run_error("another run has begun at the parameter server: start "
                      "the process that computes for this node again");
    auto joined = join_settings(settings, welcome);
    auto trains = joined.what == config::role::worker;
    if (process.line && !trains)
      return make_evaluator(system, joined,
                            description_of(welcome).data.classes, frozen,
                            process, session);
    auto wanted = trains ? data::data_part::train : data::data_part::test;
    computing_parts computing{
      joined,
      data::load_dataset(joined.data, joined.training.seed, wanted),
      threads_share(joined),
      memory ? transport::shared_or_heap(memory) : heap_memory(),
      {},
      frozen};
    const auto& set = trains ? *computing.data.train : *computing.data.test;
    models::require_suitable(joined.training.network, set.name(), set.shape(),
                             set.classes());
    require_same_data(computing, welcome);
    *owned = owned_by(computing);
    if (!trains)
      return make_evaluator(system, computing, session);
    if (process.line) {
      require_same_samples(process, set);
      return make_worker(system, computing, process, session);
    }
    auto sizes = set.shape();
    computing.plan = app::make_plan(joined, set.classes(),
                                    {static_cast<uint64_t>(sizes[0]),
                                     static_cast<uint64_t>(sizes[1]),
                                     static_cast<uint64_t>(sizes[2])});
    return make_worker(system, computing, session);
  };
  auto session_client =
    spawn<session_client_actor, remote_session_client_state>(
      system, placement::detached, std::move(parts));
  if (process.line)
    watch_process(system, process.line, session_client, begun);
  return {[session_client] {
    anon_send(session_client, stop_atom_v);
  }};
}

node start_follower(caf::actor_system& system, const config::resolved& config,
                    const end_callback& on_end) {
  auto supervisor = spawn<supervisor_actor, supervisor_state>(
    system, placement::scheduled, supervisor_parts{on_end});
  const auto& settings = config.values;
  auto follower = spawn<follower_actor, follower_state>(
    system, placement::detached,
    follower_parts{
      settings, settings.evaluation.follow, threads_share(settings), supervisor,
      config::explicit_shared_settings(config),
      config.origin_of("data.data-dir").from == config::origin::source::flag});
  return {[follower] {
    anon_send(follower, ended_atom_v, run_end{});
  }};
}

} // namespace troupe::app
