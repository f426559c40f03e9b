#pragma once
// Which processes `trainer_node launch` starts, and how. Plain values.

#include "apps/launch/child.hpp"
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
  uint32_t restarts = 0;           ///< Of each process.
  /// The run directory, if processes may be started again: the server goes on
  /// there.
  std::filesystem::path train_dir;
  /// Whether the server is told to go on with a run, or to remove one: then it
  /// is started in the same way until it has a checkpoint of its own.
  bool begins_with_another = false;
  std::filesystem::path logs; ///< Folder; empty: none.
  bool dumps_stacks = true; ///< Of a program that is told to end, if it hangs.
};

/// What the plan depends on besides the command line.
struct launch_facts {
  std::string program; ///< trainer_node
  uint32_t cores = 1;
  config::environment variables{};
  std::function<uint16_t()> free_port; ///< On loopback.
  run_secrets* secrets = nullptr; ///< Makes them; lives as long as the launch.
  /// Makes a folder for a run of this network.
  std::function<std::filesystem::path(const std::string&)> make_folder;
};

/// Reads the arguments after `launch`. Nothing when help was asked for, which
/// `help` then holds. Throws `usage_error`.
std::optional<launch_plan>
plan_launch(const std::vector<std::string>& arguments,
            const launch_facts& facts, std::string& help);

} // namespace troupe::app
