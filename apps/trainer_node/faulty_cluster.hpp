#pragma once
// The cluster of a virtual run with faults: each worker, and each life of the
// server, acts like a process of its own that can die and be started again.
// Used on the thread of the virtual run.

#include "actors/worker/computing.hpp"
#include "apps/lab/simulation/invariant_checker.hpp"
#include "apps/lab/simulation/machine.hpp"
#include "apps/trainer_node/node.hpp"
#include "apps/trainer_node/one_process_cluster.hpp"
#include "apps/trainer_node/server_life.hpp"

#include <functional>
#include <memory>

namespace troupe::app {

struct faulty_cluster_parts {
  caf::actor_system& system;
  computing_parts computing;
  std::shared_ptr<simulation::machine> machine;
  payload_shape weights;
  compression packs;
  uint64_t samples = 0;      ///< In an epoch.
  module_roster_ptr modules; ///< Of remote modules; or null.
  /// Starts the first life of the server, or the next one from the newest
  /// checkpoint in the same directory; lives count from 1. The callback hears
  /// of its end. Throws `failure`.
  std::function<server_life(
    incarnation, const std::shared_ptr<event_subscriber>&, const end_callback&)>
    open;
  end_callback on_end;
};

/// The samples of an epoch where there is no data (`--gradients none`): a few
/// leases, the last one short.
uint64_t samples_without_data(const config::settings& settings);

/// Starts everything. Throws `failure` when the server cannot start.
node start_faulty_cluster(faulty_cluster_parts parts);

} // namespace troupe::app
