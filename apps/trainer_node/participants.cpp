#include "apps/trainer_node/participants.hpp"

#include "actors/evaluator/evaluator.hpp"
#include "actors/runtime/spawning.hpp"
#include "actors/worker/worker.hpp"
#include "apps/lab/simulation/machine.hpp"

namespace troupe {

worker_actor make_worker(caf::actor_system& system,
                         const computing_parts& computing,
                         const session_client_actor& session) {
  worker_parts parts;
  parts.compute =
    spawn<compute_actor, compute_state>(system, placement::detached, computing);
  auto where =
    loader_has_thread(computing) ? placement::detached : placement::scheduled;
  parts.loader = spawn<loader_actor, loader_state>(system, where, computing);
  parts.session = session;
  return spawn<worker_actor, worker_state>(system, placement::scheduled,
                                           std::move(parts));
}

worker_actor make_worker(caf::actor_system& system,
                         const std::shared_ptr<simulation::machine>& machine,
                         worker_id who, const session_client_actor& session) {
  auto its_own = simulation::spawn_machine(system, machine, who);
  return spawn<worker_actor, worker_state>(
    system, placement::scheduled, worker_parts{its_own, its_own, session});
}

evaluator_actor make_evaluator(caf::actor_system& system,
                               const computing_parts& computing,
                               const session_client_actor& session) {
  evaluator_parts parts;
  parts.scorer =
    spawn<scorer_actor, scorer_state>(system, placement::detached, computing);
  parts.session = session;
  return spawn<evaluator_actor, evaluator_state>(system, placement::scheduled,
                                                 std::move(parts));
}

} // namespace troupe
