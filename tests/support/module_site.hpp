#pragma once
// One worker's chain with the remote module that it reaches, before a double of
// the server: LeNet, cut by a placement. Owned by a test, used on its thread.

#include "actors/runtime/tensor_payload.hpp"
#include "actors/segments/activations.hpp"
#include "actors/segments/remote_module.hpp"
#include "actors/segments/segment_chain.hpp"
#include "actors/segments/stage.hpp"
#include "data/dataset.hpp"
#include "tests/support/doubles.hpp"

#include <ATen/ATen.h>
#include <ATen/CPUGeneratorImpl.h>

#include <algorithm>
#include <map>
#include <memory>
#include <string>

namespace troupe::test {

inline constexpr int64_t classes = 10;
inline constexpr uint64_t samples = 12;

/// Counts the blocks that are taken.
struct counted_memory final : payload_memory {
  memory_block take_block(size_t bytes) override {
    ++taken;
    return heap_memory()->take_block(bytes);
  }

  uint64_t taken = 0;
};

/// A stage that counts the micro-batches between forward and backward.
struct alive_count {
  uint64_t now = 0, most = 0;
};

/// A batch of random samples, to be computed on a version.
inline compute_task task_of(uint64_t lease, const payload& weights,
                            version number) {
  auto count = static_cast<int64_t>(samples);
  auto batch = std::make_shared<data::batch>();
  auto draws = at::make_generator<at::CPUGeneratorImpl>(lease);
  batch->inputs = at::randn({count, 1, 28, 28}, draws);
  batch->targets = at::randint(classes, {count}, draws, at::kLong);
  compute_task out;
  out.from = {lease_id{lease}, 0, 0, samples};
  out.batch = batch;
  out.weights = weights;
  out.computed_on = number;
  out.cancel = std::make_shared<std::atomic<bool>>(false);
  return out;
}

/// The gradient of such a batch, computed by a network in one piece.
inline at::Tensor gradient_of(const config::training_settings& training,
                              const at::Tensor& flat,
                              const compute_task& task) {
  models::compute_engine whole{training, classes};
  auto out = at::empty_like(flat);
  whole.run(flat, task.batch->inputs, task.batch->targets, out, {task.from});
  return out;
}

/// One worker's chain, and the remote module that it reaches, if any.
struct module_site {
  explicit module_site(
    const std::string& placement, uint64_t micro_batch_size = 1000,
    config::pipeline_order order = config::pipeline_order::gpipe,
    const config::training_settings& training = {}) {
    parts.settings.training = training;
    parts.settings.training.placement = placement;
    parts.settings.parallel.mode = config::parallel_mode::remote_forward;
    plan = models::make_segment_plan(parts.settings, classes, {1, 28, 28});
    auto on_cpu = parts.settings.training;
    on_cpu.device = "cpu";
    models::compute_engine whole{on_cpu, classes};
    flat = at::empty({static_cast<int64_t>(whole.layout().count())});
    whole.initial_weights(flat, 3);
    server = make_server_stand_in(actors);
    make_module();
    make_chain(micro_batch_size, order);
  }

  void make_module() {
    remote_module_parts out;
    out.server = server.handle;
    for (const auto& segment : plan.segments)
      out.segments.push_back(segment.server ? stage_of({segment.parts, {}})
                                            : stage_actor{});
    out.range = {0, plan.parameters + plan.all_statistics};
    out.own = plan.own().count;
    out.memory = memory;
    out.most_samples = samples;
    out.most_elements = plan.most_activations;
    out.roster = roster;
    module =
      actors.make<module_host_actor, remote_module_state>(std::move(out));
  }

  void make_chain(uint64_t micro_batch_size, config::pipeline_order order) {
    chain_parts out;
    for (size_t k = 0; k < plan.segments.size(); ++k)
      out.segments.push_back(
        {plan.segments[k].server
           ? stage_actor{}
           : counted(stage_of({plan.segments[k].parts, plan.own()}), k),
         0, plan.statistics[k]});
    out.parameters = plan.own_parameters;
    out.statistics = plan.all_statistics;
    out.training = parts.settings.training;
    out.micro_batch_size = micro_batch_size;
    out.schedule = order;
    chain = actors.make<compute_actor, chain_state>(std::move(out));
  }

  stage_actor stage_of(const stage_place& where) {
    return actors.make<stage_actor, stage_state>(parts, classes, where);
  }

  stage_actor counted(const stage_actor& stage, size_t segment) {
    auto& count = alive[segment];
    return actors.stand_in<stage_actor>([stage, &count](auto* self) {
      return stage_actor::behavior_type{
        [=, &count](forward_atom msg, const module_call& call) {
          count.most = std::max(count.most, ++count.now);
          return self->delegate(stage, msg, call);
        },
        [=, &count](backward_atom msg, const module_call& call) {
          --count.now;
          return self->delegate(stage, msg, call);
        },
        [=](cancel_atom msg, lease_id which) { self->send(stage, msg, which); },
        [=](begin_atom msg, const stage_context_ptr& context) {
          self->send(stage, msg, context);
        },
      };
    });
  }

  /// Asks for weights, which the server answers with this version.
  payload pull(version number, lease_id abandoned = lease_id{0}) {
    pull_header header;
    header.abandoned = abandoned;
    auto answer =
      actors.ask<release_header, payload>(module, pull_atom_v, header);
    actors.run();
    release_header release;
    release.weights = number;
    server->pulls.back().promise.deliver(release, to_payload(flat));
    actors.run();
    return answer->get<payload>();
  }

  compute_task task(const payload& weights, uint64_t lease = 1,
                    version number = version{0}) {
    auto out = task_of(lease, weights, number);
    out.link = caf::actor_cast<caf::strong_actor_ptr>(module);
    return out;
  }

  gradient_report compute(const compute_task& task) {
    auto answer = actors.ask<gradient_report>(chain, compute_atom_v, task);
    actors.run();
    return answer->get<gradient_report>();
  }

  /// Pushes; returns the gradient that the server got.
  payload push(const compute_task& task, const payload& own) {
    push_header header;
    header.from = task.from.id;
    header.computed_on = task.computed_on;
    pushed =
      actors.ask<release_header, payload>(module, push_atom_v, header, own);
    actors.run();
    return server->pushes.back().gradient;
  }

  at::Tensor expected(const compute_task& task) {
    return gradient_of(parts.settings.training, flat, task);
  }

  module_call call(uint64_t lease, uint32_t segment = 0) {
    auto what = task({}, lease);
    module_call out;
    out.from = what.from;
    out.segment = segment;
    out.inputs = to_activations(what.batch->inputs);
    return out;
  }

  answer_ptr<module_answer> forward(const module_call& call) {
    auto out = actors.ask<module_answer>(module, forward_atom_v, call);
    actors.run();
    return out;
  }

  actor_fixture actors;
  computing_parts parts;
  models::segment_plan plan;
  at::Tensor flat;
  std::shared_ptr<counted_memory> memory = std::make_shared<counted_memory>();
  module_roster_ptr roster = std::make_shared<module_roster>();
  server_stand_in server;
  module_host_actor module;
  compute_actor chain;
  answer_ptr<release_header, payload> pushed;
  std::map<size_t, alive_count> alive;
};

inline const std::string all_remote;
inline const std::string both = "conv*=ps:0,*=worker";

} // namespace troupe::test
