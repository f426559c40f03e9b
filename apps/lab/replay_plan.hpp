#pragma once
// `--replay`: repeats a recorded run in this process, under the virtual clock.
// Called before the parameter server starts.

#include "apps/lab/replay/recorded_run.hpp"
#include "apps/trainer_node/origin.hpp"
#include "config/commands/command_line.hpp"

#include <filesystem>
#include <functional>
#include <memory>
#include <string>

namespace troupe::app {

/// An event log to replay, with the state that the run began from.
struct replay_plan {
  config::resolved config;
  std::shared_ptr<replay::recorded_run> event_log;
  std::filesystem::path folder; ///< The event log's folder.
  std::shared_ptr<const models::loaded_checkpoint> checkpoint; ///< Or null.
  std::string run_id;
  life_number life{1};
  uint32_t rules = policies::first_rules; ///< Of decision.
  int threads = 1;    ///< Intra-op threads of the run's workers.
  bool strict = true; ///< Gradients must be bit-equal.
};

/// Reads the event log's first event and finds its checkpoint. Calls `say` with
/// what may keep the weights from being bit-equal. Throws `failure`.
std::shared_ptr<const replay_plan>
plan_replay(const config::invocation& call,
            const std::function<void(const std::string&)>& say);

/// The origin of a replay: the same as that of its run, but in a directory of
/// its own. Throws `failure`.
origin origin_of(const replay_plan& plan);

/// Throws `run_error` when the parts differ from those of the recorded run.
void require_same_run(const replay_plan& plan,
                      const parameter_server_parts& parts);

/// Copies the best weights that the run had at the beginning of the event log
/// to the replay's run directory. If they are not beside the event log any
/// more, the run found better ones later, and so will the replay.
void fetch_best(const replay_plan& plan, const std::filesystem::path& to);

} // namespace troupe::app
