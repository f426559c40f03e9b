#pragma once
// The clusters of actors that a process can hold. Composition only: what the
// actors do is theirs.

#include "apps/lab/simulation/invariant_checker.hpp"
#include "apps/lab/simulation/machine.hpp"
#include "apps/trainer_node/earlier_start.hpp"
#include "config/sources/resolve.hpp"
#include "messages/interfaces.hpp"

#include <functional>
#include <memory>
#include <string>

namespace troupe::app {

/// A process with its actors running.
struct node {
  std::function<void()> stop; ///< What a first Ctrl-C does.

  // Of a cluster with faults, else empty:

  /// The first broken promise, if any. `over`: the run has ended well.
  std::function<std::optional<std::string>(bool over)> breach = {};
  std::function<void()> strike = {}; ///< Ends all actors.
  std::function<simulation::fault_counts()> counts = {};
};

/// Called once, on any thread, when the part of this process is over.
using end_callback = std::function<void(const run_end&)>;

struct replay_plan; // see replay.hpp

/// What `--check` shows: the plan, with the sizes of model and data. Looks for
/// the files of the data set and reads no sample, so that it is instant however
/// many there are. Throws `failure` when the run could not start for what it
/// sees.
std::string plan_with_model(const config::resolved& config);

struct server_options {
  end_callback on_end;
  bool silent = false; ///< Says nothing on stdout.
  /// Virtual clock: told of each computation, if set.
  std::function<void(const simulation::computation&)> watch;
  /// An event log gives the cues: no coordinator, no workers, no evaluator.
  std::shared_ptr<const replay_plan> replay = nullptr;
  earlier_start earlier = {}; ///< Found when the settings were read.
};

/// The parameter server with coordinator, checkpoint writer and recorder; also
/// all workers and the evaluator when the settings say `--simulate`, under the
/// virtual clock if they say so (then `system` must be under it). Throws
/// `failure` when it cannot start.
node start_server(caf::actor_system& system, const config::resolved& config,
                  const server_options& options);

/// A parameter server shard with a rank above 0, which looks for its lead.
/// Throws `failure` when it cannot start.
node start_shard(caf::actor_system& system, const config::resolved& config,
                 const end_callback& on_end);

/// A worker or an evaluator that looks for its parameter server.
node start_participant(caf::actor_system& system,
                       const config::resolved& config,
                       const end_callback& on_end);

/// An evaluator that follows a folder of checkpoints, without any actor of
/// others. Ends when the run's summary is there.
node start_follower(caf::actor_system& system, const config::resolved& config,
                    const end_callback& on_end);

} // namespace troupe::app
