#pragma once
// Nodes whose operating system gives them few resources.

#include "tests/process/process_fixture.hpp"

#include <arpa/inet.h>
#include <catch2/catch_test_macros.hpp>
#include <fcntl.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <filesystem>
#include <iterator>
#include <thread>

namespace troupe::testing {

/// Holds connections to a port that never send anything.
class strangers {
public:
  /// @param hosts How many addresses of this machine they come from.
  strangers(const std::string& port, size_t count, uint32_t hosts = 1) {
    sockaddr_in where{};
    where.sin_family = AF_INET;
    where.sin_port = htons(static_cast<uint16_t>(std::stoi(port)));
    where.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    for (; count > 0; --count) {
      auto fd =
        ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
      all_.push_back(fd);
      sockaddr_in from{};
      from.sin_family = AF_INET;
      from.sin_addr.s_addr =
        htonl(INADDR_LOOPBACK + static_cast<uint32_t>(count % hosts));
      ::bind(fd, reinterpret_cast<const sockaddr*>(&from), sizeof from);
      // The server may refuse them.
      [[maybe_unused]] auto done =
        ::connect(fd, reinterpret_cast<const sockaddr*>(&where), sizeof where);
    }
  }

  ~strangers() { leave(); }

  strangers(const strangers&) = delete;
  strangers& operator=(const strangers&) = delete;

  void leave() {
    for (auto fd : all_)
      ::close(fd);
    all_.clear();
  }

private:
  std::vector<int> all_;
};

/// How many cores a process keeps busy, measured over a second.
inline double load_of(const child& who) {
  auto before = who.core_seconds();
  std::this_thread::sleep_for(std::chrono::seconds(1));
  return who.core_seconds() - before;
}

/// How many files a process has open.
inline uint64_t files_of(const child& who) {
  namespace fs = std::filesystem;
  auto all = fs::path{"/proc"} / std::to_string(who.pid()) / "fd";
  return static_cast<uint64_t>(
    std::distance(fs::directory_iterator{all}, fs::directory_iterator{}));
}

/// Checks that a node printed at most one error line, and one if it failed.
inline void check_last_words(child& who, int status) {
  INFO(who.report());
  auto words = who.err();
  if (status == 0)
    CHECK(words.empty());
  if (status == 1) {
    CHECK(words.starts_with("trainer_node: "));
    CHECK(std::ranges::count(words, '\n') == 1);
  }
}

/// Runs a worker under these limits and a server without; the worker must end,
/// with or without an error.
inline int end_of_worker(const child_options& limits) {
  process_fixture on;
  auto server = on.listening_server(
    {"--workers", "1", "--max-steps", "3", "--threads", "1"});
  auto worker = on.start("worker",
                         {"--role", "worker", "--port", on.port(), "--threads",
                          "1", "--connect-timeout", "3"},
                         limits);
  auto status = worker.wait();
  check_last_words(worker, status);
  if (status == 0)
    check_end(server, 0);
  return status;
}

/// Runs a server under these limits and a worker without. A server that no
/// worker can use is told to stop.
inline int end_of_server(const child_options& limits) {
  process_fixture on;
  auto server = on.start("ps",
                         {"--role", "ps", "--port", on.port(), "--train-dir",
                          on.run().string(), "--workers", "1", "--max-steps",
                          "3", "--threads", "1"},
                         limits);
  auto worker = on.worker({"--threads", "1", "--connect-timeout", "3"});
  auto given = worker.wait();
  if (given != 0 && server.running()) {
    CHECK(load_of(server) < 0.5);
    server.signal(SIGTERM);
  }
  auto status = server.wait();
  check_last_words(server, status);
  return status;
}

} // namespace troupe::testing
