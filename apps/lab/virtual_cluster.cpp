#include "apps/lab/virtual_cluster.hpp"

#include "apps/lab/faulty_cluster.hpp"
#include "apps/lab/replay_cluster.hpp"
#include "apps/lab/replay_plan.hpp"
#include "apps/lab/simulation/policy_changes.hpp"
#include "apps/trainer_node/autocast.hpp"
#include "apps/trainer_node/server_life.hpp"
#include "apps/trainer_node/server_plan.hpp"
#include "apps/trainer_node/tensor_ways.hpp"

#include <utility>

namespace troupe::app {

namespace {

/// Finds out all that can be known before anything is changed.
server_plan plan_virtual_server(caf::actor_system& system,
                                config::resolved config,
                                const virtual_run_options& options,
                                const speech& say) {
  const auto* replay = options.replay.get();
  auto data = load_data(config.values, say);
  if (replay != nullptr)
    require_same_run(*replay, make_server_parts(config, data, {}));
  require_shards(config, data);
  auto from = replay != nullptr
                ? origin_of(*replay)
                : find_origin(config.values, say, options.earlier);
  decide_autocast({system, nullptr, {}, say}, config, data, from);
  auto out = plan_server(config, data, from, say);
  if (replay != nullptr) {
    out.computing.threads = replay->threads;
    require_same_run(*replay, out.parts);
    choose_cpu(out.computing);
  } else {
    choose_devices(out.computing);
  }
  return out;
}

/// Starts a cluster in which nobody dies.
virtual_cluster start_healthy(const virtual_members& all, server_plan plan,
                              const life_options& options) {
  plan.parts.began = [machine = all.machine] {
    return machine->began_in_life;
  };
  auto life =
    open_server(all.system, options, std::move(plan.parts), plan.from);
  start_members(all, life.with);
  simulation::spawn_policy_changes(
    all.system,
    config::parse_policy_changes(all.settings().simulation.policy_changes),
    [lead = life.with.lead] { return std::optional{lead}; },
    voice(options.silent));
  return {[lead = life.with.lead] {
    anon_send(lead, stop_atom_v);
  }};
}

} // namespace

virtual_cluster start_virtual_cluster(caf::actor_system& system,
                                      const config::resolved& config,
                                      const virtual_run_options& options,
                                      const end_callback& on_end) {
  auto say = voice(options.silent);
  auto plan = plan_virtual_server(system, config, options, say);
  if (auto how = end_before_begin(plan, options.interrupted, say)) {
    on_end(*how);
    return {[] {
    }};
  }
  if (options.replay)
    fetch_best(*options.replay, plan.from.directory.path);
  begin(plan, say);
  if (options.replay)
    return start_replay(system, std::move(plan), options, on_end);
  plan.computing.carried = store_of(plan.config.values, plan.from);
  auto machine = simulation::make_machine(plan.computing);
  machine->watch = options.watch;
  const auto& settings = plan.config.values;
  virtual_members all{system,
                      plan.computing,
                      machine,
                      plan.weights(),
                      compression_of(settings, plan.from, plan.layout),
                      plan.parts.modules};
  life_options its{on_end, options.silent};
  return has_faults(settings)
           ? start_faulty_cluster({all, std::move(plan), its})
           : start_healthy(all, std::move(plan), its);
}

} // namespace troupe::app
