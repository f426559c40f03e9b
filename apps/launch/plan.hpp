#pragma once
// Which processes `trainer_node launch` starts, and how. Plain values.

#include "apps/launch/child.hpp"
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
  /// Whether the server may be started again: it goes on from its checkpoint,
  /// and for that its folder must be known.
  bool server_resumes = false;
  std::filesystem::path logs; ///< Folder; empty: none.
};

/// What the plan depends on besides the command line.
struct launch_facts {
  std::string program; ///< trainer_node
  uint32_t cores = 1;
  config::environment variables{};
  std::function<uint16_t()> free_port; ///< On loopback.
};

/// Reads the arguments after `launch`. Nothing when help was asked for, which
/// `help` then holds. Throws `usage_error`.
std::optional<launch_plan>
plan_launch(const std::vector<std::string>& arguments,
            const launch_facts& facts, std::string& help);

} // namespace troupe::app
