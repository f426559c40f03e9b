#pragma once
// Starts all actors of a virtual run: a replay, a cluster with faults, or one
// without. Used on the thread of the run.

#include "apps/lab/virtual_run.hpp"
#include "apps/trainer_node/node.hpp"

#include <caf/actor_system.hpp>

#include <functional>
#include <optional>
#include <string>

namespace troupe::app {

struct virtual_cluster {
  std::function<void()> stop; ///< The effect of a first Ctrl-C.

  // With faults; otherwise empty:

  /// The first violated invariant, if any.
  /// @param over Whether the run was completed.
  std::function<std::optional<std::string>(bool over)> breach = {};
  std::function<void()> strike = {}; ///< Ends all actors.
  std::function<simulation::fault_counts()> counts = {};
};

/// @param on_end Called once, when the run is over.
/// @pre `system` has a virtual clock.
/// Throws `failure` when the run cannot start.
virtual_cluster start_virtual_cluster(caf::actor_system& system,
                                      const config::resolved& config,
                                      const virtual_run_options& options,
                                      const end_callback& on_end);

} // namespace troupe::app
