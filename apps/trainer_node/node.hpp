#pragma once
// The clusters of actors that a process can run: functions that spawn and
// connect them for each role. Composition only; the behaviour is in the actors.
//
// Called by main, on its thread.

#include "apps/startup/earlier_start.hpp"
#include "apps/startup/known_nodes.hpp"
#include "config/run_folder/run_lock.hpp"
#include "config/sources/resolve.hpp"
#include "messages/interfaces.hpp"
#include "messages/transport/nccl/gpu_exchange.hpp"
#include "messages/transport/wire/meeting.hpp"

#include <filesystem>
#include <functional>
#include <memory>
#include <string>

namespace troupe::app {

/// A process with its actors running.
struct node {
  std::function<void()> stop; ///< The effect of a first Ctrl-C.
  /// Where the run's files are, if this process writes them.
  std::filesystem::path directory = {};
  /// Of that directory; or null. It outlives the actors, for a next life.
  std::shared_ptr<const config::run_lock> lock = {};
  /// Of the run, if this process leads it.
  std::optional<life_number> life = {};
  /// The effect of another signal to stop, by its number; empty: the same.
  std::function<void(int signal)> stop_in_time = {};
};

/// Called once, on any thread, when this process's part of the run is over.
using end_callback = std::function<void(const run_end&)>;

/// What `--check` shows: the plan, with the sizes of model and data. Looks for
/// the files of the data set but reads no sample, so that it is fast for any
/// number of samples. Throws `failure` when it finds that the run could not
/// start.
std::string plan_with_model(const config::resolved& config);

/// What a node is started with, beside its settings.
struct node_options {
  end_callback on_end;
  known_nodes_ptr nodes;
  /// Between shard and worker of a peer with a GPU; or null.
  transport::gpu_exchange_ptr exchange = {};
  /// Whether the user has asked the process to stop; may be empty.
  std::function<bool()> interrupted = {};
  transport::credentials own = {}; ///< What this node shows to others.
};

struct server_options {
  end_callback on_end;
  known_nodes_ptr nodes;
  earlier_start earlier = {}; ///< Found when the settings were read.
  /// Whether the user has asked the process to stop; may be empty.
  std::function<bool()> interrupted = {};
  transport::gpu_exchange_ptr exchange = {}; ///< As in `node_options`.
  transport::credentials own = {};           ///< As in `node_options`.
};

/// The parameter server with coordinator, checkpoint writer and recorder. With
/// `--simulate` also all workers and the evaluator, in real time. Throws
/// `failure` when it cannot start.
node start_server(caf::actor_system& system, const config::resolved& config,
                  const server_options& options);

/// A parameter server shard with a rank above 0, which connects to its lead.
/// Throws `failure` when it cannot start.
node start_shard(caf::actor_system& system, const config::resolved& config,
                 const node_options& options);

/// A worker or an evaluator, which connects to its parameter server. With
/// `--compute external`, the process that computes has to connect first.
/// Throws `failure` when it cannot start.
node start_participant(caf::actor_system& system,
                       const config::resolved& config,
                       const node_options& options);

/// An evaluator that follows a folder of checkpoints, without a parameter
/// server. Ends when the run's summary exists.
node start_follower(caf::actor_system& system, const config::resolved& config,
                    const end_callback& on_end);

} // namespace troupe::app
