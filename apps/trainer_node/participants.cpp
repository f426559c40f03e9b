#include "apps/trainer_node/participants.hpp"

#include "actors/evaluator/evaluator.hpp"
#include "actors/own_loop/training.hpp"
#include "actors/runtime/spawning.hpp"
#include "actors/user_process/agent.hpp"
#include "actors/user_process/python_stacks.hpp"
#include "actors/user_process/scorer.hpp"
#include "actors/weights/server_model.hpp"
#include "actors/worker/worker.hpp"
#include "apps/trainer_node/segment_places.hpp"
#include "models/layout/segments.hpp"

namespace troupe {

namespace {

/// Spawns a worker's replicas. Only the first one's gradients leave the
/// process.
compute_actor make_replicas(caf::actor_system& system,
                            const computing_parts& computing,
                            const inner_state_ptr& inner) {
  auto other = computing;
  other.memory = heap_memory();
  const auto& devices = computing.replica_devices;
  std::vector<compute_actor> others;
  for (uint32_t k = 1; k < computing.settings.parallel.replicas; ++k) {
    if (!devices.empty())
      other.settings.training.device = devices[k % devices.size()];
    others.push_back(
      spawn<compute_actor, compute_state>(system, placement::detached, other));
  }
  return spawn<compute_actor, compute_state>(system, placement::detached,
                                             computing, others, inner);
}

compute_actor make_compute(caf::actor_system& system,
                           const computing_parts& computing,
                           const inner_state_ptr& inner) {
  if (!computing.plan)
    return make_replicas(system, computing, inner);
  if (remote::registered_training())
    return app::make_training_loop(system, computing);
  return app::make_chain(system, computing,
                         app::make_stages(system, computing));
}

} // namespace

worker_actor make_worker(caf::actor_system& system,
                         const computing_parts& computing,
                         const session_client_actor& session) {
  worker_parts parts;
  parts.local_steps = computing.settings.training.local_steps.most;
  parts.overlap_steps = computing.settings.training.overlap_steps;
  parts.inner = make_inner_state(computing);
  parts.compute = make_compute(system, computing, parts.inner);
  auto where =
    loader_has_thread(computing) ? placement::detached : placement::scheduled;
  parts.loader = spawn<loader_actor, loader_state>(system, where, computing);
  parts.session = session;
  return spawn<worker_actor, worker_state>(system, placement::scheduled,
                                           std::move(parts));
}

worker_actor make_worker(caf::actor_system& system,
                         const computing_parts& computing,
                         const external_compute& by,
                         const session_client_actor& session) {
  const auto& train = *computing.data.train;
  auto layout = models::layout_of(computing.settings.training, train.classes());
  auto agent =
    make_agent(system, {{computing.settings, layout, computing.frozen,
                         by.memory, by.line, session},
                        make_order(computing.settings, train),
                        computing.memory});
  return spawn<worker_actor, worker_state>(
    system, placement::scheduled,
    worker_parts{
      agent, agent, session, {agent, shape_of(layout)}, [line = by.line] {
        return external::stacks_of(line->pid());
      }});
}

evaluator_actor make_evaluator(caf::actor_system& system,
                               const computing_parts& computing,
                               const session_client_actor& session) {
  return spawn<evaluator_actor, evaluator_state>(
    system, placement::scheduled,
    evaluator_parts{
      spawn<scorer_actor, scorer_state>(system, placement::detached, computing),
      session});
}

evaluator_actor make_evaluator(caf::actor_system& system,
                               const user_process_parts& parts) {
  auto scorer = make_external_scorer(system, parts);
  return spawn<evaluator_actor, evaluator_state>(
    system, placement::scheduled,
    evaluator_parts{scorer, parts.session, {scorer, shape_of(parts.layout)}});
}

} // namespace troupe
