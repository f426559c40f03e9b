#pragma once
// Which processes `trainer_node launch` starts, where, and how. Plain values.

#include "apps/launch/hosts/host.hpp"
#include "apps/launch/hosts/host_list.hpp"
#include "apps/launch/run_secrets.hpp"
#include "config/commands/command_line.hpp"
#include "config/commands/verb.hpp"

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace troupe::app {

/// What was typed after `launch`.
struct launch_call {
  config::verb_call own;
  std::vector<std::string> rest;  ///< After "--".
  std::vector<listed_host> hosts; ///< Empty: this machine.
};

/// Reads the arguments after `launch`. Nothing when help was asked for, which
/// `help` then holds. Throws `usage_error`.
std::optional<launch_call>
read_launch(const std::vector<std::string>& arguments, std::string& help);

struct launch_plan {
  std::vector<child_plan> servers; ///< Rank 0, which ends the run, is first.
  std::vector<child_plan> others;  ///< Workers, then the evaluator.
  /// The servers are peers: each works, too, and the run goes on without one
  /// that has died.
  bool of_peers = false;
  uint32_t restarts = 0;      ///< Of each process.
  std::filesystem::path logs; ///< Folder; empty: none.
  std::vector<std::string> warnings{};
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

/// Throws `usage_error`.
launch_plan plan_launch(const launch_call& call, const launch_facts& facts);

} // namespace troupe::app
