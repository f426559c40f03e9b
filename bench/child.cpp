#include "bench/child.hpp"

#include "config/text/failure.hpp"

#include <fcntl.h>
#include <spawn.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <csignal>
#include <fstream>
#include <optional>
#include <system_error>
#include <utility>

namespace troupe::bench {

namespace {

std::string shown(const std::vector<std::string>& command) {
  std::string out;
  for (const auto& word : command)
    out += (out.empty() ? "" : " ") + word;
  return out;
}

pid_t start(const std::vector<std::string>& command) {
  std::vector<char*> words;
  for (const auto& word : command)
    words.push_back(const_cast<char*>(word.c_str()));
  words.push_back(nullptr);
  posix_spawn_file_actions_t files;
  ::posix_spawn_file_actions_init(&files);
  ::posix_spawn_file_actions_addopen(&files, STDOUT_FILENO, "/dev/null",
                                     O_WRONLY, 0);
  pid_t child = 0;
  auto code =
    ::posix_spawn(&child, words[0], &files, nullptr, words.data(), ::environ);
  ::posix_spawn_file_actions_destroy(&files);
  if (code != 0)
    throw run_error("cannot start " + command.front() + ": " +
                    std::system_category().message(code));
  return child;
}

double seconds(const timeval& x) {
  return static_cast<double>(x.tv_sec) + static_cast<double>(x.tv_usec) * 1e-6;
}

/// MiB; nothing when there is no such process any more.
std::optional<double> peak_memory(pid_t id) {
  std::ifstream in{"/proc/" + std::to_string(id) + "/status"};
  for (std::string line; std::getline(in, line);)
    if (line.starts_with("VmHWM:"))
      return std::stod(line.substr(6)) / 1024;
  return std::nullopt;
}

} // namespace

// The peak memory that wait4(2) reports includes that of the parent, too.
child::child(std::vector<std::string> command)
  : command_(std::move(command)), id_(start(command_)),
    memory_thread_([this, id = id_](const std::stop_token& stop) {
      while (!stop.stop_requested()) {
        if (auto found = peak_memory(id))
          peak_mib_ = *found;
        std::this_thread::sleep_for(std::chrono::milliseconds(10));
      }
    }) {
  // nop
}

child::~child() {
  if (id_ == 0)
    return;
  ::kill(id_, SIGKILL);
  ::waitpid(id_, nullptr, 0);
}

cost child::wait() {
  int status = 0;
  rusage used{};
  while (::wait4(id_, &status, 0, &used) < 0)
    if (errno != EINTR)
      throw run_error("cannot wait for " + command_.front());
  memory_thread_.request_stop();
  id_ = 0;
  if (!WIFEXITED(status) || WEXITSTATUS(status) != 0)
    throw run_error("failed: " + shown(command_));
  return {{clock_.elapsed(), seconds(used.ru_utime) + seconds(used.ru_stime)},
          peak_mib_,
          static_cast<double>(used.ru_minflt)};
}

cost run_child(const std::vector<std::string>& command) {
  return child{command}.wait();
}

} // namespace troupe::bench
