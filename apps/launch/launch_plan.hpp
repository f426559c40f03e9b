#pragma once
// Which processes `trainer_node launch` starts, where, and how. Plain values.

#include "apps/launch/hosts/host.hpp"
#include "apps/launch/launch_call.hpp"
#include "apps/launch/run_secrets.hpp"
#include "config/commands/command_line.hpp"

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

namespace troupe::app {

struct launch_plan {
  std::vector<child_plan> servers; ///< Rank 0, which ends the run, is first.
  std::vector<child_plan> others;  ///< Workers, then the evaluator.
  /// The servers are peers: each works, too, and the run goes on without one
  /// that has died.
  bool of_peers = false;
  uint32_t restarts = 0; ///< Of each process.
  /// How often in a row a process is started again without a gradient in the
  /// weights; 0: any number of times.
  uint32_t no_progress_limit = 0;
  double grace = 25; ///< s in which all of them have to end, once told to stop.
  std::filesystem::path logs; ///< Folder; empty: none.
  std::vector<std::string> warnings{};
  bool dumps_stacks = true; ///< Of a program that is told to end, if it hangs.
};

/// What the plan depends on besides the command line.
struct launch_facts {
  std::string program;         ///< trainer_node
  std::vector<uint32_t> cores; ///< Of each host; 0: not known yet.
  config::environment variables{};
  std::function<uint16_t()> free_port; ///< On the first host.
  run_secrets* secrets = nullptr; ///< Makes them; lives as long as the launch.
  /// Makes a folder for a run of this network, on the first host.
  std::function<std::filesystem::path(const std::string&)> make_folder;
};

/// The command of a peer as that of a node which joins later. @param lead Where
/// the peer listens that leads now; empty if that is not known.
std::vector<std::string>
command_to_join(const std::vector<std::string>& command,
                const std::string& lead);

/// Throws `usage_error`.
launch_plan plan_launch(const launch_call& call, const launch_facts& facts);

} // namespace troupe::app
