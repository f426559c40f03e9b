#pragma once
// How many cores this process may use: what the machine has, the kernel allows,
// a container's quota pays for, and others whom the same launcher has started
// on this host leave.

#include "config/sources/resolve.hpp"
#include "config/text/settings.hpp"

#include <cstdint>
#include <filesystem>
#include <optional>

namespace troupe::app {

struct cpu_facts {
  uint32_t cores = 1;   ///< Of the machine, or of the container.
  uint32_t allowed = 1; ///< Of these the kernel lets this process have so many.
  std::optional<double> quota{}; ///< Cores' worth of time; none: no limit.
  uint32_t launched = 0; ///< Processes that a launcher has started here; 0:
                         ///< none has, as far as is known.
  /// Whether the launcher may have given each process cores of its own, so that
  /// `allowed` is no longer to be shared.
  bool bound = false;
};

/// Intra-op threads of each computing thread: as configured, or this process's
/// share of the cores. Workers on the loopback address share one machine.
int threads_share(const config::settings& settings, const cpu_facts& cpus);

/// What control groups (version 1, 2 or both) allow this process.
struct cgroup_limits {
  std::optional<uint32_t> cores; ///< Of its cpuset.
  std::optional<double> quota;   ///< The least of the groups that it is in.
};

/// @param root Below which /proc and /sys lie.
cgroup_limits read_cgroups(const std::filesystem::path& root = "/");

/// The launcher's part of the facts.
void read_launched(cpu_facts& out, const config::environment& variables);

/// Of this process.
cpu_facts find_cpus();

} // namespace troupe::app
