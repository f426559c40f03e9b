#pragma once
// How many cores and how much memory this process may use. That is limited by
// the machine, the kernel's affinity mask, a container's quota, and by other
// processes that the same launcher has started on this host.
//
// Free functions, called when the process starts; thread-safe.

#include "config/text/settings.hpp"

#include <cstdint>
#include <filesystem>
#include <optional>

namespace troupe::app {

struct cpu_facts {
  uint32_t cores = 1;            ///< Of the machine or the container.
  uint32_t allowed = 1;          ///< Allowed by the kernel.
  std::optional<double> quota{}; ///< Cores' worth of time; none: no limit.
  uint32_t launched = 0;         ///< Processes that a launcher started here;
                                 ///< 0: not known.
  /// Whether the launcher may have given each process cores of its own. Then
  /// `allowed` need not be shared any more.
  bool bound = false;
};

/// Intra-op threads of each computing thread: as configured, or this process's
/// share of the cores. Workers on the loopback address share one machine.
int threads_share(const config::settings& settings, const cpu_facts& cpus);

/// Threads that share the passes of a parameter server, or of a shard in a
/// process of its own, over its weights. Where all shards are in one process
/// there are as many threads as shards. Else they take the cores of those who
/// wait for the step: all cores under policies with rounds, and one worker's
/// share where each gradient makes a step. At most 8.
uint32_t lanes_share(const config::settings& settings, const cpu_facts& cpus);

/// Bytes that this process may use: the machine's memory, or what its control
/// groups allow.
uint64_t find_memory();

/// What control groups (version 1, 2 or both) allow this process.
struct cgroup_limits {
  std::optional<uint32_t> cores;  ///< In its cpuset.
  std::optional<double> quota;    ///< The smallest over its groups.
  std::optional<uint64_t> memory; ///< Bytes; the smallest over its groups.
};

/// @param root The folder that contains /proc and /sys.
cgroup_limits read_cgroups(const std::filesystem::path& root = "/");

/// The facts for this process.
cpu_facts find_cpus();

} // namespace troupe::app
