#include "apps/trainer_node/one_process_cluster.hpp"

#include "actors/own_loop/training.hpp"
#include "actors/runtime/spawning.hpp"
#include "apps/trainer_node/participants.hpp"
#include "apps/trainer_node/segment_places.hpp"

#include <utility>

namespace troupe::app {

local_session_client_parts evaluator_of(caf::actor_system& system,
                                        const computing_parts& computing,
                                        const local_server& with) {
  local_session_client_parts out;
  out.with = with;
  out.make = [&system, computing](const session_client_actor& session) {
    return make_evaluator(system, computing, session);
  };
  return out;
}

void tie_to_modules(const computing_parts& computing,
                    const far_end_factory& find,
                    local_session_client_parts& parts) {
  if (parts.tie || !has_remote_modules(computing))
    return;
  parts.tie = [find](const local_server& with, const participant& who) {
    return made_link{find(with).server, who};
  };
}

session_client_actor connect(caf::actor_system& system,
                             local_session_client_parts parts) {
  return spawn<session_client_actor, local_session_client_state>(
    system, placement::scheduled, std::move(parts));
}

void start_members(caf::actor_system& system, const computing_parts& computing,
                   const compression& packs, const module_roster_ptr& roster,
                   const local_server& with) {
  auto find = [&system, computing, roster](const local_server& server) {
    return make_far_end(system, computing, server.lead, roster,
                        make_stages(system, computing));
  };
  for (uint32_t i = 0; i < computing.settings.cluster.workers; ++i) {
    auto its = parts_of_rank(computing, worker_id{i});
    local_session_client_parts parts;
    parts.with = with;
    parts.make = [&system, its](const session_client_actor& session) {
      return make_worker(system, its, session);
    };
    parts.packs = packs;
    parts.awaits_score = remote::registered_training() != nullptr;
    parts.data = owned_by(its);
    parts.leases =
      cores::leases_for(computing.settings.training.local_steps.most,
                        computing.settings.training.overlap_steps);
    if (parts.data.samples > 0)
      parts.rank = worker_id{i};
    tie_to_modules(computing, find, parts);
    connect(system, std::move(parts));
  }
  if (computing.settings.cluster.evaluator.value_or(true))
    connect(system, evaluator_of(system, computing, with));
}

} // namespace troupe::app
