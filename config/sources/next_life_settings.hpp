#pragma once
// The settings of a process that goes on as a node of a run's next life, since
// peers have lost others (apps/startup/next_life.hpp). It has the same
// arguments as before; an environment variable says what is different.
//
// Pure functions, called once by main's thread.

#include "config/sources/launcher.hpp"
#include "config/values/address.hpp"

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace troupe::config {

/// A life of a run whose nodes are peers, as one of them knows it. A node that
/// was still connecting knows where the lead is, and nothing else.
struct run_life {
  std::string run_id{}; ///< Empty: not known.
  uint32_t number = 0;  ///< Of the life.
  /// By rank: where others would find it as the lead. Those of the last ranks
  /// may be missing.
  std::vector<address> nodes{};
  std::filesystem::path directory{}; ///< Of the run's files.

  bool operator==(const run_life&) const = default;
};

/// Which node of the next life a process is.
struct next_life {
  uint32_t rank = 0;
  uint32_t peers = 0;
  bool evaluator = false; ///< Whether there is one beside the peers.
  bool has_led = false;   ///< Whether this process led the life before.
  /// Whether it does without NCCL, since a sum has failed.
  bool without_nccl = false;
  /// If the run has one: each peer keeps the size of its batches.
  std::optional<uint64_t> global_batch_size{};
  /// The life before, but only those of its nodes that go on.
  run_life before{};
  address listens{}; ///< Where this process did; without a host: nowhere.
};

/// The environment variable that tells a parameter server to go on with the run
/// in this run directory. `launch` sets it for a server that died, and a server
/// that begins anew sets it for itself.
inline constexpr const char* restart_variable = "TROUPE_RESTART";

/// The settings of such a server, which come before all others, whatever its
/// first start was told. Empty if this is no restart.
std::vector<given> restart_settings(const environment& variables);

/// The environment variable that holds a `next_life`.
inline constexpr const char* next_life_variable = "TROUPE_NEXT_LIFE";

/// The value of the variable.
std::string print(const next_life& life);

/// Nothing if this process was no node before. Throws `usage_error`.
std::optional<next_life> read_next_life(const environment& variables);

/// The launch of such a node, whatever launcher there was.
launch launch_of(const next_life& life);

/// The settings of the node, which come before all others.
std::vector<given> settings_of(const next_life& life);

/// The settings of the run that the node changes.
std::vector<given> changes_of(const next_life& life);

} // namespace troupe::config
