#pragma once
// The server of a replay, and the driver that stands for all who talked to it.
// Used on the thread of the virtual run.

#include "apps/lab/virtual_cluster.hpp"
#include "apps/trainer_node/server_plan.hpp"

namespace troupe::app {

/// Starts the run of `options.replay`, with a replay driver instead of the
/// coordinator and all participants. With `--compute external` the process that
/// computes has to come first. Throws `failure`.
virtual_cluster start_replay(caf::actor_system& system, server_plan plan,
                             const virtual_run_options& options,
                             end_callback on_end);

} // namespace troupe::app
