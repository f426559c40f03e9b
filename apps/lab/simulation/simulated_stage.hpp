#pragma once
// A stage whose passes take virtual time: a stage of production, behind an
// actor that delays it. Of the time that a gradient is declared to take, each
// pass has its share: forward a third, backward two thirds, all segments and
// micro-batches alike. Cancelling ends the wait at once.
//
// Part of a virtual run, on its only thread.

#include "actors/segments/stage.hpp"
#include "apps/lab/simulation/machine.hpp"

#include <memory>

namespace troupe::simulation {

struct simulated_stage_parts {
  stage_actor stage;
  std::shared_ptr<machine> shared;
  worker_id who;    ///< The worker that it computes for.
  double share = 1; ///< Of a gradient's time, that of one micro-batch here.
};

stage_actor spawn_simulated_stage(caf::actor_system& system,
                                  simulated_stage_parts parts);

} // namespace troupe::simulation
