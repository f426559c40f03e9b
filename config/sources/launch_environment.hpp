#pragma once
// What the launcher that started this process says about it, read from the
// environment variables of its row in launcher_table.hpp. Pure functions,
// called once by main's thread.
//
// MASTER_ADDR and MASTER_PORT, which torchrun sets and a batch script may set,
// come before what a launcher says of its own about host and port. torchrun
// itself listens on MASTER_PORT, so with it we use the next port.

#include "config/sources/resolve.hpp"

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace troupe::config {

/// A process of ps-lite, whose launcher names roles instead of ranks.
struct named_role {
  role what = role::worker;
  std::optional<uint32_t> rank{}; ///< Of a worker or a shard.
  uint32_t workers = 0;
  uint32_t shards = 1;
};

struct launch {
  uint32_t rank = 0;
  uint32_t processes = 0;         ///< 0: only `workers` says how many.
  std::string rank_variable;      ///< "RANK"
  std::string processes_variable; ///< "WORLD_SIZE"
  /// What shows that processes run on several hosts; else empty.
  std::string several_hosts;
  std::string host_hint; ///< Which host to name then, for an error line.
  /// Host and port; our own variables take precedence.
  std::vector<given> meeting_point;
  /// The variables that rank and size were taken from, with their values, for
  /// the log. Empty for a start by hand.
  std::vector<std::string> facts;
  /// "SLURM_RESTART_COUNT=1" for a process that was started again; else empty.
  std::string restart;
  std::optional<named_role> named; ///< Instead of rank and processes.
};

/// Reads the launch variables; nothing when there are none. Throws
/// `usage_error` when they make no sense.
std::optional<launch> read_launch(const environment& variables);

/// The number in a variable. Throws `usage_error` for other text.
uint32_t number_of(const environment& variables, const std::string& name);

} // namespace troupe::config
