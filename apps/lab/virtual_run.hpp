#pragma once
// Runs a whole cluster under `--clock virtual`, on the calling thread, as fast
// as that computes. Called by main and by `compare`.

#include "apps/lab/simulation/invariant_checker.hpp"
#include "apps/lab/simulation/machine.hpp"
#include "apps/startup/earlier_start.hpp"
#include "config/sources/resolve.hpp"
#include "messages/types.hpp"

#include <functional>
#include <memory>

namespace troupe::app {

struct replay_plan; // see apps/lab/replay_plan.hpp

struct virtual_run_options {
  /// Polled now and then: true ends the run as a first Ctrl-C does.
  std::function<bool()> interrupted;
  bool silent = false; ///< Writes nothing to stdout.
  std::function<void(const simulation::computation&)> watch; ///< May be empty.
  std::shared_ptr<const replay_plan> replay;                 ///< May be null.
  /// Called with the faults that occurred, in a run with faults; may be empty.
  std::function<void(const simulation::fault_counts&)> counts;
  earlier_start earlier; ///< Found when the settings were read.
};

/// Runs to the end. Throws `failure` when the run cannot start, and `run_error`
/// when it is stuck: no message is left and no timer is set.
run_end run_in_virtual_time(const config::resolved& config,
                            const virtual_run_options& options);

} // namespace troupe::app
