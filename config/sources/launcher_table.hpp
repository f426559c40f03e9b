#pragma once
// Which environment variables each launcher sets: one table for all of them. A
// launcher starts the processes of a cluster (torchrun, mpirun, srun), or a
// process on each of its machines (Kubernetes, SkyPilot). Pure functions; any
// thread.
//
// docs/launchers.md has the table for users.

#include "config/sources/resolve.hpp"

#include <array>
#include <cstdint>
#include <optional>
#include <string>

namespace troupe::config {

/// Names of variables that say the same, the first that is set counts. A `*`
/// stands for any text. Unused places are null.
using variable_names = std::array<const char*, 3>;

/// How a variable names hosts.
enum class host_form : uint8_t {
  list, ///< With commas or line breaks between them; it may be a single one.
  slurm ///< n[01-03,7]
};

/// What a launcher tells a process. What it does not tell is empty.
struct launcher_row {
  const char* name;                 ///< For users.
  variable_names mark{};            ///< Must be set besides `rank`, if any is.
  variable_names rank{};            ///< Among all processes, from 0 on.
  variable_names processes{};       ///< How many; else `workers` says so.
  variable_names local_rank{};      ///< Among those on this host.
  variable_names local_processes{}; ///< How many those are.
  variable_names node{}; ///< Then `local_processes` is a list for all nodes, in
                         ///< which this one has that place.
  variable_names nodes{}; ///< How many hosts; else `local_processes` shows that
                          ///< there are several, or each process has its own.
  variable_names host{};  ///< Where rank 0 is.
  host_form hosts = host_form::list;
  variable_names port{};      ///< For the run; of a range the first.
  variable_names job{};       ///< A number, from which else the port is made.
  variable_names step{};      ///< The same, within the job.
  variable_names restarts{};  ///< How often this was started again.
  const char* host_hint = ""; ///< Which host that is, for an error line.
  /// Whether the local rank counts even if nothing says how many processes
  /// there are on this host.
  bool local_rank_alone = false;
  /// Whether the launcher may have given each process cores of its own.
  bool may_bind = false;
};

/// A variable that is set.
struct variable_fact {
  std::string name; ///< "SLURM_PROCID"
  std::string text; ///< "2"

  /// "SLURM_PROCID=2"
  std::string cite() const;
};

/// The first of these variables that is set and not empty. Throws `usage_error`
/// if a name with a `*` stands for several that are.
std::optional<variable_fact> find_fact(const environment& all,
                                       const variable_names& names);

/// The launcher that has started this process; null if there was none. Where
/// one launcher has started another, both have left variables, and the inner
/// one counts: the rows of the table stand in this order.
const launcher_row* find_launcher(const environment& all);

/// This process among those that a launcher has started on this host.
struct local_place {
  std::optional<variable_fact> rank;
  uint32_t processes = 0; ///< 0: not known.
  /// Whether the launcher may have given each of them cores of its own.
  bool bound = false;
};

/// What cannot be read counts as not told.
local_place find_local_place(const environment& all);

} // namespace troupe::config
