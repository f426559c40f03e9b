#include "actors/user_process/python_stacks.hpp"

#include "config/text/descriptor.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <string_view>
#include <thread>

namespace troupe::external {

namespace {

namespace fs = std::filesystem;
using clock = std::chrono::steady_clock;

// The same numbers and name as in python/troupe/stacks.py. Of two signals that
// wait, the lower one is delivered first.
int signal_for_log() {
  return SIGRTMIN + 11;
}

int signal_for_file() {
  return SIGRTMIN + 12;
}

constexpr std::string_view name_of_file = "/memfd:troupe-stacks";

constexpr auto patience = std::chrono::milliseconds(500);
constexpr auto pause = std::chrono::milliseconds(10);
constexpr int pauses_at_end = 3; ///< Without more text.
constexpr off_t most_text = 16 << 10;

fs::path folder_of(pid_t pid) {
  return fs::path{"/proc"} / std::to_string(pid);
}

/// Whether it handles both signals: others would end it.
bool handles_signals(pid_t pid) {
  std::ifstream status{folder_of(pid) / "status"};
  uint64_t handled = 0;
  for (std::string line; std::getline(status, line);)
    if (line.starts_with("SigCgt:"))
      handled = std::stoull(line.substr(7), nullptr, 16);
  auto has = [handled](int number) {
    return (handled >> (number - 1) & 1) != 0;
  };
  return has(signal_for_log()) && has(signal_for_file());
}

config::descriptor open_file_of(pid_t pid) {
  std::error_code error;
  for (const auto& one : fs::directory_iterator{folder_of(pid) / "fd", error})
    if (fs::read_symlink(one.path(), error).string().starts_with(name_of_file))
      return config::descriptor{open(one.path().c_str(), O_RDONLY | O_CLOEXEC)};
  return config::descriptor{-1};
}

off_t size_of(int file) {
  struct stat facts {};
  return fstat(file, &facts) == 0 ? facts.st_size : 0;
}

/// Waits until text has been added after `begin`, and no more comes.
off_t end_of_text(int file, off_t begin) {
  auto until = clock::now() + patience;
  auto size = begin;
  for (auto still = 0; still < pauses_at_end && clock::now() < until;) {
    std::this_thread::sleep_for(pause);
    auto now = size_of(file);
    still = now > begin && now == size ? still + 1 : 0;
    size = now;
  }
  return size;
}

} // namespace

std::string stacks_of(pid_t pid) {
  if (!handles_signals(pid))
    return "";
  auto file = open_file_of(pid);
  if (file.get() < 0)
    return "";
  auto begin = size_of(file.get());
  kill(pid, signal_for_log());
  kill(pid, signal_for_file());
  auto end = end_of_text(file.get(), begin);
  std::string out(static_cast<size_t>(std::min(end - begin, most_text)), ' ');
  auto got = pread(file.get(), out.data(), out.size(), begin);
  out.resize(static_cast<size_t>(std::max<ssize_t>(got, 0)));
  return out;
}

} // namespace troupe::external
