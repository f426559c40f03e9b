#pragma once
// Processes that a launcher of ps-lite has started (dmlc-submit, or a script
// that sets DMLC_ROLE). It names roles instead of ranks. Pure functions, called
// once by main's thread.
//
//   DMLC_ROLE   here
//   scheduler   the parameter server; with servers, the lead of the shards
//   server      a shard
//   worker      a worker
//
// DMLC_NUM_WORKER and DMLC_NUM_SERVER say how many there are of each,
// DMLC_PS_ROOT_URI and DMLC_PS_ROOT_PORT where the scheduler is.
// DMLC_NODE_HOST, if set, is where a server listens. Which worker or server a
// process is stands in DMLC_WORKER_ID, DMLC_SERVER_ID or DMLC_TASK_ID, which
// counts the workers first and then the servers.

#include "config/sources/launch_environment.hpp"

#include <optional>

namespace troupe::config {

/// Nothing without DMLC_ROLE. Throws `usage_error` when the variables make no
/// sense.
std::optional<launch> read_ps_lite(const environment& variables);

/// Sets role, rank, and the numbers of workers and shards. Throws `usage_error`
/// when they do not fit the settings.
void assign_named_role(resolved& all, const named_role& named);

} // namespace troupe::config
