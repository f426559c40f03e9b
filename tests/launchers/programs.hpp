#pragma once
// Finds the launchers that are installed, and the processes that they have
// started. A test whose launcher is not there is left out, with a line that
// names it. Used on a test's thread.

#include "tests/process/launched.hpp"

#include <catch2/catch_test_macros.hpp>
#include <signal.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <stdexcept>
#include <string>
#include <vector>

namespace troupe::testing {

/// The file of a program; empty if it is not installed.
inline std::string find_program(const std::string& name) {
  const auto* path = std::getenv("PATH");
  std::istringstream in{std::string{path != nullptr ? path : ""} +
                        ":/usr/sbin:/usr/bin"};
  std::error_code none;
  for (std::string folder; std::getline(in, folder, ':');)
    if (auto file = std::filesystem::path{folder} / name;
        std::filesystem::is_regular_file(file, none))
      return file.string();
  return "";
}

/// Leaves the test out unless all of these programs are there.
inline void require_programs(const std::vector<std::string>& names) {
  for (const auto& name : names)
    if (find_program(name).empty())
      SKIP(name + " is not installed: ./dev setup --launchers");
}

/// Kills the process that has this variable among those that `launcher` has
/// started.
inline void kill_process(const child& launcher, const std::string& variable) {
  auto has_variable = [&](pid_t pid) {
    std::ifstream from{"/proc/" + std::to_string(pid) + "/environ"};
    for (std::string one; std::getline(from, one, '\0');)
      if (one == variable)
        return true;
    return false;
  };
  auto all = children_of(launcher.pid());
  auto found = std::ranges::find_if(all, has_variable);
  if (found == all.end())
    throw std::runtime_error("no process with " + variable);
  ::kill(*found, SIGKILL);
}

} // namespace troupe::testing
