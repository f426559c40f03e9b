// The process of a worker or an evaluator.

#include "actors/evaluator/follower.hpp"
#include "actors/recording/console.hpp"
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
#include "apps/trainer_node/participant_plan.hpp"
#include "apps/trainer_node/participants.hpp"
#include "apps/trainer_node/segment_places.hpp"
#include "config/runs/policy_change.hpp"
#include "config/runs/shared_settings.hpp"
#include "config/schema/paths.hpp"
#include "config/text/failure.hpp"
#include "config/text/text.hpp"
#include "config/text/value.hpp"
#include "config/values/external.hpp"
#include "data/describe.hpp"
#include "messages/run_record.hpp"
#include "models/engine/bfloat16_gain.hpp"
#include "models/networks/registry.hpp"

#include <ATen/Parallel.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstring>
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
  open_placed_devices(joined); // Before the first backward pass.
  auto data = description_of(welcome).data;
  at::set_num_threads(threads_share(joined));
  return models::bfloat16_gain(joined.training, data.shape, data.classes);
}

/// Makes the participant of this process for the run that its server has.
class participant_maker {
public:
  participant_maker(caf::actor_system& system, config::settings settings,
                    external_compute process,
                    std::shared_ptr<transport::shared_memory> memory)
    : system_(&system), settings_(std::move(settings)),
      process_(std::move(process)), memory_(std::move(memory)) {
    // nop
  }

  participant operator()(const proto::Welcome& welcome,
                         const session_client_actor& session,
                         const payload& frozen) const {
    // The process that computes has the leases and the memory of the run
    // before.
    if (process_.line && begun_->exchange(true))
      throw run_error("another run has begun at the parameter server: start "
                      "the process that computes for this node again");
    auto joined = join_settings(settings_, welcome);
    *leases_ = cores::leases_for(joined.training.local_steps.most,
                                 joined.training.overlap_steps);
    open_placed_devices(joined);
    auto trains = joined.what == config::role::worker;
    if (process_.line && !trains)
      return make_evaluator(
        *system_, {joined,
                   models::layout_of(joined.training,
                                     description_of(welcome).data.classes),
                   frozen, process_.memory, process_.line, session});
    auto computing = load(joined, frozen);
    const auto& set = trains ? *computing.data.train : *computing.data.test;
    models::require_suitable(joined.training.network, set.name(), set.shape(),
                             set.classes());
    require_same_data(computing, welcome);
    *owned_ = owned_by(computing);
    computing.carried = {settings_.training.train_dir,
                         settings_.checkpoint.keep,
                         description_of(welcome).run_id};
    if (!trains)
      return make_evaluator(*system_, computing, session);
    if (process_.line) {
      require_same_samples(process_, set);
      return make_worker(*system_, computing, process_, session);
    }
    auto sizes = set.shape();
    computing.plan = make_plan(joined, set.classes(),
                               {static_cast<uint64_t>(sizes[0]),
                                static_cast<uint64_t>(sizes[1]),
                                static_cast<uint64_t>(sizes[2])});
    choose_devices(computing);
    return make_worker(*system_, computing, session);
  }

  /// The samples that the worker has to itself, once it is made.
  std::shared_ptr<const owned_data> owned() const { return owned_; }

  /// How many leases it wants to have, once it is made.
  std::shared_ptr<const uint32_t> leases() const { return leases_; }

  /// Whether the process computes for a run.
  const std::shared_ptr<std::atomic<bool>>& begun() const { return begun_; }

private:
  computing_parts load(const config::settings& joined,
                       const payload& frozen) const {
    auto wanted = joined.what == config::role::worker ? data::data_part::train
                                                      : data::data_part::test;
    return {joined,
            data::load_dataset(joined.data, joined.training.seed, wanted),
            threads_share(joined),
            memory_ ? transport::shared_or_heap(memory_) : heap_memory(),
            {},
            frozen};
  }

  caf::actor_system* system_;
  config::settings settings_; ///< Of this node only.
  external_compute process_;
  std::shared_ptr<transport::shared_memory> memory_; ///< Or null.
  std::shared_ptr<owned_data> owned_ = std::make_shared<owned_data>();
  std::shared_ptr<uint32_t> leases_ =
    std::make_shared<uint32_t>(cores::leases_ahead);
  std::shared_ptr<std::atomic<bool>> begun_ =
    std::make_shared<std::atomic<bool>>(false);
};

remote_session_client_parts session_parts_of(const participant_plan& plan) {
  const auto& cluster = plan.settings.cluster;
  remote_session_client_parts out;
  out.host = cluster.host;
  out.port = cluster.port;
  out.connect_timeout = cluster.connect_timeout;
  out.jitter_seed = static_cast<uint64_t>(getpid());
  out.rank = plan.rank;
  out.transport = cluster.transport;
  out.overlap = plan.overlap;
  out.memory = shared_memory_for(plan.settings);
  out.takes_last = plan.takes_last;
  if (const auto& device = plan.settings.training.device; device != "cpu")
    out.device = device;
  out.goes_on = [](const std::string& key) {
    return config::is_of_policy(key);
  };
  out.awaits_score = plan.awaits_score;
  out.follows = plan.follows;
  out.begins_anew = plan.begins_anew;
  out.feedback_store = {
    plan.settings.training.train_dir, plan.settings.checkpoint.keep, {}};
  out.bfloat16_gain = [settings =
                         plan.settings](const proto::Welcome& welcome) {
    return measure_bfloat16(settings, welcome);
  };
  if (plan.meeting)
    out.look_up = [place = *plan.meeting] {
      return read_meeting_file(place);
    };
  return out;
}

/// Adds what its GPU has for the tensors of this node. What NCCL adds up needs
/// no NCCL of its own on the way to a shard.
void add_ways(remote_session_client_parts& parts,
              const config::settings& settings, node_exchange exchange) {
  if (!exchange)
    parts.gpus = gpu_network_for(settings, recording::say);
  else if (const auto* path = config::find_path(parts.transport);
           path != nullptr && path->needs_gpu)
    parts.transport = "auto";
  parts.exchange = std::move(exchange);
}

/// "SIGTERM"
std::string name_of_signal(int number) {
  const auto* name = sigabbrev_np(number);
  return name != nullptr ? "SIG" + std::string{name}
                         : "signal " + std::to_string(number);
}

/// Ends the process that computes, if any, with the run.
supervisor_actor spawn_supervisor(caf::actor_system& system,
                                  const external_compute& process,
                                  const end_callback& on_end) {
  return spawn<supervisor_actor, supervisor_state>(
    system, placement::scheduled,
    supervisor_parts{[on_end, line = process.line](const run_end& how) {
      if (line)
        line->end(how);
      on_end(how);
    }});
}

} // namespace

node start_participant(caf::actor_system& system,
                       const config::resolved& config,
                       const node_options& options) {
  auto process = process_for(config.values, options.interrupted);
  auto supervisor = spawn_supervisor(system, process, options.on_end);
  auto plan = plan_participant(config.values, process);
  auto parts = session_parts_of(plan);
  parts.own = options.own;
  add_ways(parts, plan.settings,
           spawn_exchange_front(system, options.exchange));
  if (process.line) {
    auto& host = process.memory.host;
    host = parts.memory ? parts.memory
                        : std::make_shared<transport::shared_memory>();
    host->keep_foreign_files();
    // The process that computes was told the batch size; other settings that
    // can change do not concern it.
    parts.goes_on = [](const std::string& key) {
      return key != "training.batch-size";
    };
  }
  parts.hello = make_hello(config);
  parts.supervisor = supervisor;
  parts.on_place = [nodes = options.nodes, line = process.line](
                     const proto::Welcome& welcome, const config::address& lead,
                     worker_id as) {
    nodes->note(welcome, lead, as);
    if (line)
      line->send(external::process_frame_kind::place, as.value);
  };
  participant_maker make{system, config.values, process, parts.memory};
  parts.owns = [owned = make.owned()] {
    return *owned;
  };
  parts.leases = [leases = make.leases(), given = plan.leases] {
    return given.value_or(*leases);
  };
  parts.make = make;
  auto session_client =
    spawn<session_client_actor, remote_session_client_state>(
      system, placement::detached, std::move(parts));
  if (process.line)
    watch_process(system, process.line, session_client, make.begun());
  node out{[session_client] {
    anon_send(session_client, stop_atom_v);
  }};
  out.stop_in_time = [session_client, line = process.line,
                      grace = config.values.cluster.grace](int signal) {
    if (line)
      line->send(external::process_frame_kind::stopping, 0,
                 external::body_writer{}
                   .put("told to stop by " + name_of_signal(signal))
                   .take_bytes());
    // The rest is for its way out.
    anon_send(session_client, stop_atom_v, grace - std::min(3.0, grace / 2));
  };
  return out;
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
