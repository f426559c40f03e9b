#include "apps/trainer_node/segment_places.hpp"

#include "actors/own_loop/training_loop.hpp"
#include "actors/recording/console.hpp"
#include "actors/runtime/spawning.hpp"
#include "apps/startup/resources.hpp"
#include "config/text/failure.hpp"
#include "config/text/text.hpp"
#include "models/engine/intra_op.hpp"
#include "models/engine/loss_scale.hpp"
#include "models/networks/registry.hpp"

#include <algorithm>
#include <utility>

namespace troupe::app {

namespace {

/// Refuses settings that do not suit a training loop of the program's own: it
/// needs the network in one place, its samples in one piece, and the real
/// clock.
void require_loop_fits(const config::settings& settings) {
  if (!remote::registered_training())
    return;
  auto refuse = [](const std::string& text) {
    throw usage_error("this program trains with a loop of its own, which " +
                      text);
  };
  if (settings.parallel.mode != config::parallel_mode::remote_forward)
    refuse("needs --mode remote-forward");
  if (config::is_virtual(settings))
    refuse("does not run on --clock virtual; use --clock real");
  if (settings.training.autocast == config::autocast_kind::fp16)
    refuse("has a loss of its own, which --autocast fp16 would have to scale; "
           "use bf16");
  if (settings.training.micro_batch_size)
    refuse("gets whole batches: leave --micro-batch-size out");
}

} // namespace

std::shared_ptr<const models::segment_plan>
make_plan(const config::settings& settings, int64_t classes,
          const std::array<uint64_t, 3>& shape) {
  require_loop_fits(settings);
  if (settings.parallel.mode == config::parallel_mode::data_parallel)
    return nullptr;
  // A stage is measured with the threads that it will have.
  models::intra_op_threads threads{threads_share(settings)};
  return std::make_shared<const models::segment_plan>(
    models::make_segment_plan(settings, classes, {shape.begin(), shape.end()}));
}

namespace {

void choose_devices_of_replicas(computing_parts& computing) {
  const auto& settings = computing.settings;
  if (settings.what == config::role::ps || settings.parallel.replicas == 1 ||
      config::is_virtual(settings))
    return;
  computing.replica_devices = devices_of_replicas(settings);
  if (const auto& all = computing.replica_devices; all.size() > 1)
    recording::say("replicas     on " + config::join(all, ", "));
}

} // namespace

void choose_devices(computing_parts& computing) {
  if (!computing.plan)
    return choose_devices_of_replicas(computing);
  const auto& settings = computing.settings;
  auto plan = std::make_shared<models::segment_plan>(*computing.plan);
  for (auto& segment : plan->segments)
    if (computes_parts_of(segment.server, settings)) {
      segment.device = device_of_part(segment.device, settings);
      auto its = settings.training;
      its.device = segment.device;
      models::require_gpu_for_fp16(its);
    }
  computing.plan = std::move(plan);
}

void choose_cpu(computing_parts& computing) {
  if (!computing.plan)
    return;
  auto plan = std::make_shared<models::segment_plan>(*computing.plan);
  for (auto& segment : plan->segments)
    segment.device = "cpu";
  computing.plan = std::move(plan);
}

stage_factory make_stages(caf::actor_system& system,
                          const computing_parts& computing) {
  return [&system, computing](const stage_place& where) {
    return spawn<stage_actor, stage_state>(
      system, placement::detached, computing, computing.plan->classes, where);
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
                         const stage_factory& stages, const loss_actor& loss) {
  const auto& settings = computing.settings;
  const auto& plan = *computing.plan;
  chain_parts out;
  out.loss = loss;
  out.threads = computing.threads;
  out.parameters = plan.own_parameters;
  out.statistics = plan.all_statistics;
  out.training = settings.training;
  out.schedule = settings.parallel.schedule;
  out.micro_batch_size = plan.micro_batch_size;
  out.memory = computing.memory;
  for (size_t k = 0; k < plan.segments.size(); ++k) {
    const auto& segment = plan.segments[k];
    chain_link link;
    link.server = segment.server.value_or(0);
    link.statistics = plan.statistics[k];
    if (!segment.server)
      link.here = stages({segment.parts, plan.own(), segment.device});
    out.segments.push_back(std::move(link));
  }
  return spawn<compute_actor, chain_state>(system, placement::scheduled,
                                           std::move(out));
}

compute_actor make_training_loop(caf::actor_system& system,
                                 const computing_parts& computing) {
  const auto& training = computing.settings.training;
  const auto& plan = *computing.plan;
  training_loop_parts out;
  out.train = remote::registered_training();
  out.make_chain = [&system, computing](const loss_actor& loss) {
    return make_chain(system, computing, make_stages(system, computing), loss);
  };
  auto net =
    models::make_network(training.network, plan.classes, training.dtype);
  auto layout = models::layout_of(*net, training);
  for (const auto& slot : layout.slots())
    out.parameters.push_back({slot.name, slot.shape,
                              models::owner_of(slot.name, *net, plan.segments),
                              slot.offset});
  out.own = plan.own();
  out.most_elements = plan.most_activations;
  out.dtype = training.dtype;
  out.threads = computing.threads;
  return spawn<training_loop_actor, training_loop_state>(
    system, placement::scheduled, out);
}

namespace {

bool owns(const module_owner& owner, const models::placed_segment& segment) {
  return owner.rank ? segment.server == owner.rank : segment.server.has_value();
}

/// The owner of remote modules in a server that has all shards.
module_owner whole_server(const computing_parts& computing,
                          const lead_actor& server,
                          const module_roster_ptr& roster) {
  const auto& plan = *computing.plan;
  return {parameter_server_actor{server},
          {},
          {0, plan.parameters + plan.all_statistics},
          roster};
}

module_host_actor make_remote_module(caf::actor_system& system,
                                     const computing_parts& computing,
                                     const module_owner& owner,
                                     const stage_factory& stages) {
  const auto& plan = *computing.plan;
  remote_module_parts parts;
  parts.server = owner.server;
  for (const auto& segment : plan.segments)
    parts.segments.push_back(
      owns(owner, segment)
        ? stages({segment.parts, owner.range, segment.device})
        : stage_actor{});
  parts.range = owner.range;
  // The worker's own elements are the last ones, which the lead has.
  parts.own = owner.range.end() == plan.own().end() ? plan.own().count : 0;
  parts.dtype = computing.settings.training.dtype;
  parts.most_samples = computing.settings.training.batch_size;
  parts.most_elements = plan.most_activations;
  parts.roster = owner.roster;
  return spawn<module_host_actor, remote_module_state>(
    system, placement::scheduled, std::move(parts));
}

} // namespace

far_end make_far_end(caf::actor_system& system,
                     const computing_parts& computing, const lead_actor& server,
                     const module_roster_ptr& roster,
                     const stage_factory& stages) {
  if (!has_remote_modules(computing))
    return {parameter_server_actor{server}};
  auto module = make_remote_module(
    system, computing, whole_server(computing, server, roster), stages);
  return {parameter_server_actor{module}, module_actor{module}};
}

module_factory module_maker(caf::actor_system& system,
                            const computing_parts& computing,
                            const module_owner& owner) {
  auto has_some =
    computing.plan && std::ranges::any_of(computing.plan->segments,
                                          [&](const models::placed_segment& x) {
                                            return owns(owner, x);
                                          });
  if (!has_some)
    return nullptr;
  return [&system, computing, owner] {
    return make_remote_module(system, computing, owner,
                              make_stages(system, computing));
  };
}

} // namespace troupe::app
