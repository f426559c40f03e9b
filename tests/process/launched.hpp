#pragma once
// A cluster that `trainer_node launch` has started, for tests.

#include "tests/process/process_fixture.hpp"

#include <catch2/catch_test_macros.hpp>

#include <algorithm>
#include <fstream>
#include <iterator>
#include <map>
#include <regex>
#include <string>
#include <utility>
#include <vector>

namespace troupe::testing {

inline std::vector<pid_t> children_of(pid_t pid) {
  auto name = std::to_string(pid);
  std::ifstream from{"/proc/" + name + "/task/" + name + "/children"};
  std::vector<pid_t> out;
  for (pid_t one = 0; from >> one;)
    out.push_back(one);
  return out;
}

inline std::string command_of(pid_t pid) {
  std::ifstream from{"/proc/" + std::to_string(pid) + "/cmdline"};
  std::string out{std::istreambuf_iterator<char>{from}, {}};
  std::ranges::replace(out, '\0', ' ');
  return out;
}

/// What follows a flag in a command line.
inline std::string value_of(const std::string& command,
                            const std::string& flag) {
  std::smatch found;
  REQUIRE(std::regex_search(command, found, std::regex{flag + " ([^ ]+)"}));
  return found[1];
}

inline bool is_gone(pid_t pid) {
  auto command = command_of(pid);
  return command.empty() || command.find("trainer_node") == std::string::npos;
}

/// Nodes of runs in which something dies, and which are replayed.
inline const flags endless{"--epochs", "100000", "--checkpoint-freq", "10"};

inline child_options
with_variables(std::map<std::string, std::string> variables) {
  child_options out;
  out.environment = std::move(variables);
  return out;
}

struct launched {
  explicit launched(const flags& own, const flags& rest = {},
                    const flags& of_nodes = {"--epochs", "4"},
                    const child_options& how = {})
    : process(
        on.start("launch",
                 flags{"launch", "--workers", "2"} + own + flags{"--"} +
                   (rest.empty() ? flags{"--train-dir", on.run().string()} +
                                     on.of_writer() + of_nodes
                                 : rest),
                 how)) {
    // nop
  }

  /// The process of this role that the launcher has started.
  /// @param role The role and what follows it in the command line, as a
  /// pattern.
  pid_t find(const std::string& role) {
    pid_t out = 0;
    std::regex wanted{"--role " + role};
    eventually("a " + role, [&] {
      for (auto one : children_of(process.pid()))
        if (std::regex_search(command_of(one), wanted))
          out = one;
      return out != 0;
    });
    return out;
  }

  void check_nothing_is_left(const std::vector<pid_t>& started) {
    for (auto one : started)
      eventually("the end of " + std::to_string(one),
                 [one] { return is_gone(one); });
  }

  process_fixture on{recorded};
  child process;
};

} // namespace troupe::testing
