#pragma once
// `--role auto`: what a node is, from the environment that launched it.
//
//   launcher        rank, number of processes
//   torchrun, ...   RANK, WORLD_SIZE
//   Open MPI        OMPI_COMM_WORLD_RANK, OMPI_COMM_WORLD_SIZE
//   Slurm           SLURM_PROCID, SLURM_NTASKS, of a step that srun began
//
// The first launcher of the list whose two variables are set counts. Host and
// port are those of MASTER_ADDR and MASTER_PORT, which torchrun sets and a
// batch script may. Without, and with processes on several hosts, the settings
// must name the host. Rank 0 is the parameter server, ranks 1 to N are the
// workers 0 to N-1; with
// `[cluster] evaluator = true` the last process is the evaluator. `workers` is
// what is left of the processes; where it is given, it must agree. torchrun
// itself listens at MASTER_PORT, so that with it we take the port after.

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
  /// What says that the processes are on several hosts; empty if nothing does.
  std::string several_hosts;
  /// Host and port; weaker than the variables of our own.
  std::vector<given> meeting_point;
};

/// Throws `usage_error` when there is no launch environment or it makes no
/// sense.
launch read_launch(const environment& variables);

/// Sets role, rank and number of workers. Throws `usage_error` when the launch
/// does not fit the settings.
void assign_role(resolved& all, const launch& by);

} // namespace troupe::config
