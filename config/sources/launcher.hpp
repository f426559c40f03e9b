#pragma once
// `--role auto`: the role of a node, from the environment variables of the
// program that launched it. Pure functions, called once by main's thread.
//
//   launcher        rank, number of processes
//   torchrun, ...   RANK, WORLD_SIZE
//   Open MPI        OMPI_COMM_WORLD_RANK, OMPI_COMM_WORLD_SIZE
//   Slurm           SLURM_PROCID, SLURM_NTASKS, set by srun
//
// The first launcher whose two variables are set is used. Host and
// port are taken from MASTER_ADDR and MASTER_PORT, which torchrun sets and a
// batch script may set. Without them, if processes run on several hosts, the
// settings must name the host. Rank 0 is the parameter server, ranks 1 to N are
// the workers 0 to N-1; with `[cluster] evaluator = true` the last process is
// the evaluator. `workers` is the number of remaining processes; if given, it
// must agree. torchrun itself listens on MASTER_PORT, so with it we use the
// next port.
//
// `--init-method tcp://HOST:PORT` names the address instead, and file:///PATH
// a file through which rank 0 tells it to the others.
//
// With `--topology peers` every process but that evaluator is a worker and a
// shard, and rank 0 also leads. Without a launcher, --rank and --workers say
// which of how many a process is.

#include "config/sources/resolve.hpp"

#include <optional>
#include <string>
#include <vector>

namespace troupe::config {

struct launch {
  uint32_t rank = 0;
  uint32_t processes = 0;
  std::string rank_variable;      ///< "RANK"
  std::string processes_variable; ///< "WORLD_SIZE"
  /// The variable that shows that processes run on several hosts; else empty.
  std::string several_hosts;
  /// Host and port; our own variables take precedence.
  std::vector<given> meeting_point;
};

/// Reads the launch variables; nothing when there are none. Throws
/// `usage_error` when they make no sense.
std::optional<launch> read_launch(const environment& variables);

/// Sets role, rank and number of workers. Throws `usage_error` when the launch
/// does not fit the settings, or when there is none and the settings do not
/// say.
void assign_role(resolved& all, const std::optional<launch>& by);

/// The same for a process whose role is given: `--simulate` has a shard beside
/// each worker if its nodes are peers. Throws `usage_error` for other roles,
/// which are no peers.
void fit_topology(resolved& all);

} // namespace troupe::config
