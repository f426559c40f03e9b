#include "apps/trainer_node/modules.hpp"

#include "actors/runtime/spawning.hpp"
#include "apps/lab/simulation/simulated_stage.hpp"

#include <algorithm>
#include <utility>

namespace troupe::app {

std::shared_ptr<const models::segment_plan>
make_plan(const config::settings& settings, int64_t classes,
          const std::array<uint64_t, 3>& shape) {
  if (settings.parallel.mode == config::parallel_mode::data_parallel)
    return nullptr;
  return std::make_shared<const models::segment_plan>(
    models::make_segment_plan(settings, classes, {shape.begin(), shape.end()}));
}

stage_factory make_stages(caf::actor_system& system,
                          const computing_parts& computing) {
  return [&system, computing](const stage_place& where) {
    return spawn<stage_actor, stage_state>(
      system, placement::detached, computing, computing.plan->classes, where);
  };
}

stage_factory make_stages(caf::actor_system& system,
                          const computing_parts& computing,
                          const std::shared_ptr<simulation::machine>& machine,
                          worker_id who) {
  const auto& settings = computing.settings;
  auto passes =
    computing.plan->segments.size() *
    (settings.training.batch_size / computing.plan->micro_batch_size);
  auto share = 1.0 / static_cast<double>(std::max<size_t>(passes, 1));
  auto stage = make_stages(system, computing);
  return [&system, stage, machine, who, share](const stage_place& where) {
    return simulation::spawn_simulated_stage(
      system, {stage(where), machine, who, share});
  };
}

bool has_remote_modules(const computing_parts& computing) {
  return computing.plan &&
         std::ranges::any_of(computing.plan->segments,
                             [](const models::placed_segment& x) {
                               return x.server.has_value();
                             });
}

compute_actor make_chain(caf::actor_system& system,
                         const computing_parts& computing,
                         const stage_factory& stages) {
  const auto& settings = computing.settings;
  const auto& plan = *computing.plan;
  chain_parts out;
  out.parameters = plan.own_parameters;
  out.statistics = plan.all_statistics;
  out.training = settings.training;
  out.schedule = settings.parallel.schedule;
  out.micro_batch_size = plan.micro_batch_size;
  out.memory = computing.memory;
  for (size_t k = 0; k < plan.segments.size(); ++k) {
    const auto& segment = plan.segments[k];
    chain_link link;
    link.statistics = plan.statistics[k];
    if (!segment.server)
      link.here = stages({segment.parts, plan.own()});
    out.segments.push_back(std::move(link));
  }
  return spawn<compute_actor, chain_state>(system, placement::scheduled,
                                           std::move(out));
}

namespace {

module_host_actor make_remote_module(caf::actor_system& system,
                                     const computing_parts& computing,
                                     const lead_actor& server,
                                     const module_roster_ptr& roster,
                                     const stage_factory& stages) {
  const auto& plan = *computing.plan;
  remote_module_parts parts;
  parts.server = server;
  for (const auto& segment : plan.segments)
    parts.segments.push_back(segment.server ? stages({segment.parts, {}})
                                            : stage_actor{});
  parts.range = {0, plan.parameters + plan.all_statistics};
  parts.own = plan.own().count;
  parts.dtype = computing.settings.training.dtype;
  parts.most_samples = computing.settings.training.batch_size;
  parts.roster = roster;
  return spawn<module_host_actor, remote_module_state>(
    system, placement::scheduled, std::move(parts));
}

far_end far_end_of(const module_host_actor& module) {
  return {parameter_server_actor{module}, module_actor{module}};
}

} // namespace

far_end make_far_end(caf::actor_system& system,
                     const computing_parts& computing, const lead_actor& server,
                     const module_roster_ptr& roster) {
  if (!has_remote_modules(computing))
    return {parameter_server_actor{server}};
  auto stages = make_stages(system, computing);
  return far_end_of(
    make_remote_module(system, computing, server, roster, stages));
}

far_end make_far_end(caf::actor_system& system,
                     const computing_parts& computing, const lead_actor& server,
                     const module_roster_ptr& roster,
                     const std::shared_ptr<simulation::machine>& machine,
                     worker_id who) {
  if (!has_remote_modules(computing))
    return {parameter_server_actor{server}};
  auto stages = make_stages(system, computing, machine, who);
  return far_end_of(
    make_remote_module(system, computing, server, roster, stages));
}

module_factory module_maker(caf::actor_system& system,
                            const computing_parts& computing,
                            const lead_actor& server,
                            const module_roster_ptr& roster) {
  if (!has_remote_modules(computing))
    return nullptr;
  return [&system, computing, server, roster] {
    return make_remote_module(system, computing, server, roster,
                              make_stages(system, computing));
  };
}

} // namespace troupe::app
