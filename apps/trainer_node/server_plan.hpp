#pragma once
// What a parameter server starts with: all that is known before its first
// actor, so that whatever is wrong is said before anything is changed. Made by
// main, or by the laboratory, on the thread that starts the server.

#include "actors/worker/computing.hpp"
#include "apps/trainer_node/origin.hpp"
#include "models/layout/flat_layout.hpp"

#include <functional>
#include <optional>
#include <string>

namespace troupe::app {

struct server_plan {
  config::resolved config;
  run_data data;
  models::flat_layout layout; ///< Of the weights.
  origin from;
  parameter_server_parts parts;   ///< Without the actors that it uses.
  computing_parts computing = {}; ///< Of the participants of this process.
  /// Why nothing is left to do, if so.
  std::optional<std::string> complete{};

  payload_shape weights() const { return shape_of(layout); }
};

/// Throws `usage_error` unless each shard gets some of the weights.
void require_shards(const config::resolved& config, const run_data& data);

/// Reads the first weights, if the run begins with a file of them, and writes
/// nothing. Throws `failure` if the run cannot start so.
server_plan plan_server(const config::resolved& config, const run_data& data,
                        const origin& from, const speech& say);

/// For people and tests: what is trained, on what, where and from which step.
std::string to_string(const server_plan& plan);

/// How a run ends that does not even begin: nothing is left to do, or the user
/// has asked for a stop. Nothing: it begins.
/// @param interrupted May be empty.
std::optional<run_end>
end_before_begin(const server_plan& plan,
                 const std::function<bool()>& interrupted, const speech& say);

/// Begins the life in the run directory, and opens its event log. Throws
/// `run_error`.
void begin(server_plan& plan, const speech& say);

/// The end of a run that a signal stopped before it began.
run_end stopped_before_begin();

} // namespace troupe::app
