#include "bench/train/slow_node.hpp"

#include "bench/train/cores.hpp"
#include "config/text/failure.hpp"

#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <system_error>
#include <thread>

namespace troupe::bench {

namespace {

using words = std::vector<std::string>;

// With the kernel, a thread gets 1.25 times the time of one that is a step
// nicer. So five steps give these two three quarters and one quarter.
constexpr int niceness_of_busy = 5;
constexpr int niceness_of_computing = 10;

/// What /proc says of a process or thread behind its name: state, and so on.
words fields_of(const std::filesystem::path& stat) {
  std::ifstream in{stat};
  std::string line;
  std::getline(in, line);
  std::istringstream rest{
    line.substr(std::min(line.size(), line.rfind(')') + 1))};
  words out;
  for (std::string word; rest >> word;)
    out.push_back(word);
  return out;
}

/// Seconds of processor time.
double time_of(const std::filesystem::path& thread) {
  constexpr size_t user = 11;
  auto fields = fields_of(thread / "stat");
  if (fields.size() <= user + 1)
    return 0;
  return (std::stod(fields[user]) + std::stod(fields[user + 1])) /
         static_cast<double>(sysconf(_SC_CLK_TCK));
}

} // namespace

slow_node::slow_node() : cores_(allowed_cores()) {
  if (cores_.size() < 2)
    throw run_error("a slow node needs a core of its own, and there is one");
  busy_ = std::make_unique<child>(
    beside(true, {"nice", "-n", std::to_string(niceness_of_busy), "sh", "-c",
                  "while :; do :; done"}));
}

words slow_node::beside(bool slow, const words& command) const {
  return on_core(cores_[slow], command);
}

// The computing thread is the one that has computed for half a second: all
// others only wait.
void slow_node::slow_down(pid_t process) {
  constexpr double enough = 0.5;
  auto folder = std::filesystem::path{"/proc"} / std::to_string(process);
  for (;;) {
    auto fields = fields_of(folder / "stat");
    if (fields.empty() || fields[0] == "Z")
      return; // The run was shorter than that.
    std::error_code ended;
    for (const auto& thread :
         std::filesystem::directory_iterator{folder / "task", ended})
      if (time_of(thread.path()) > enough) {
        auto id = std::stoul(thread.path().filename());
        setpriority(PRIO_PROCESS, static_cast<id_t>(id), niceness_of_computing);
        return;
      }
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
}

} // namespace troupe::bench
