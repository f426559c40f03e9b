#pragma once
// What `--autocast auto` becomes: decided once, before the server's parts
// exist, so that config.ini, checkpoints and the event log say what was
// decided. Called by main while a parameter server starts; not thread-safe.

#include "apps/startup/front_door.hpp"
#include "apps/trainer_node/origin.hpp"
#include "config/sources/resolve.hpp"

#include <functional>
#include <optional>

namespace troupe::app {

/// The start of a server that has to decide.
struct server_start {
  caf::actor_system& system;
  front_door* door; ///< Where workers come; null if they are in this process.
  /// Whether the user has asked the process to stop; may be empty.
  std::function<bool()> interrupted;
  speech say;
};

/// Decides. A run that goes on keeps its earlier decision. Otherwise bfloat16
/// is used if it is faster at each worker: this process measures if the workers
/// are in it; else it waits for the workers, which measure. It is never used
/// under the virtual clock, where a run must not depend on a measurement.
///
/// `config` is changed.
///
/// @returns False if it was interrupted before the decision.
/// @throws failure if the network cannot be made.
bool decide_autocast(const server_start& start, config::resolved& config,
                     const run_data& data, const origin& from);

} // namespace troupe::app
