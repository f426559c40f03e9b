#pragma once
// The command line of `trainer_node launch`. Plain values.

#include "apps/launch/hosts/host_list.hpp"
#include "config/commands/verb.hpp"

#include <optional>
#include <string>
#include <vector>

namespace troupe::app {

/// Of each kind that one launch starts.
inline constexpr uint64_t most_processes = 1000;

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

} // namespace troupe::app
