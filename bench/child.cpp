#include "bench/child.hpp"

#include "actors/clock/wall_clock.hpp"
#include "config/failure.hpp"

#include <fcntl.h>
#include <spawn.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <system_error>

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

} // namespace

cost run_child(const std::vector<std::string>& command) {
  wall_clock clock;
  auto child = start(command);
  int status = 0;
  rusage used{};
  while (::wait4(child, &status, 0, &used) < 0)
    if (errno != EINTR)
      throw run_error("cannot wait for " + command.front());
  if (!WIFEXITED(status) || WEXITSTATUS(status) != 0)
    throw run_error("failed: " + shown(command));
  return {{clock.elapsed(), seconds(used.ru_utime) + seconds(used.ru_stime)},
          static_cast<double>(used.ru_maxrss) / 1024};
}

} // namespace troupe::bench
