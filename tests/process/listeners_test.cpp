// Which ports a process listens at, as the kernel has it.

#include "tests/process/peers.hpp"
#include "tests/process/process_fixture.hpp"

#include <catch2/catch_test_macros.hpp>

#include <algorithm>
#include <set>
#include <sstream>

using namespace troupe::testing;
namespace fs = std::filesystem;

namespace {

/// The inodes of a process's sockets.
std::set<std::string> sockets_of(const child& who) {
  std::set<std::string> out;
  std::error_code gone;
  for (const auto& entry : fs::directory_iterator{
         "/proc/" + std::to_string(who.pid()) + "/fd", gone}) {
    auto name = fs::read_symlink(entry.path(), gone).string();
    if (name.starts_with("socket:["))
      out.insert(name.substr(8, name.size() - 9));
  }
  return out;
}

/// The addresses, in hex as in /proc/net/tcp, where a process listens.
std::vector<std::string> listeners_of(const child& who) {
  auto own = sockets_of(who);
  std::vector<std::string> out;
  for (const auto* file : {"/proc/net/tcp", "/proc/net/tcp6"}) {
    std::istringstream lines{slurp(file)};
    std::string line;
    std::getline(lines, line); // Titles.
    while (std::getline(lines, line)) {
      std::istringstream words{line};
      std::string number, local, remote, state, inode, other;
      words >> number >> local >> remote >> state;
      for (auto left = 5; left > 0; --left)
        words >> other;
      words >> inode;
      if (state == "0A" && own.contains(inode)) // It listens.
        out.push_back(local);
    }
  }
  return out;
}

bool is_loopback(const std::string& local) {
  return local.starts_with("0100007F:") ||
         local.starts_with("00000000000000000000000001000000:");
}

void check_listeners(const child& who, size_t count) {
  auto all = listeners_of(who);
  INFO(who.report());
  CHECK(all.size() == count);
  for (const auto& local : all) {
    INFO(local);
    CHECK(is_loopback(local));
  }
}

const flags long_run{"--epochs", "100000",    "--policy",
                     "async",    "--threads", "1"};

} // namespace

TEST_CASE("a server listens at one port of loopback, a worker and an evaluator "
          "nowhere") {
  process_fixture on;
  auto server = on.listening_server(long_run + flags{"--workers", "1"});
  check_listeners(server, 1);
  auto worker = on.worker({"--threads", "1"});
  auto evaluator = on.evaluator({"--threads", "1"});
  evaluator.await("connected");
  on.await(server, "training", is_kind("update"));
  check_listeners(server, 1);
  check_listeners(worker, 0);
  check_listeners(evaluator, 0);
}

TEST_CASE("each shard listens at one port of loopback") {
  process_fixture on;
  sharded_server all{on, 2, long_run + flags{"--workers", "1"}};
  auto worker = on.worker({"--threads", "1"});
  on.await(all.lead, "training", is_kind("update"));
  check_listeners(all.lead, 1);
  check_listeners(all.others.front(), 1);
  check_listeners(worker, 0);
}

TEST_CASE("each peer listens at one port of loopback") {
  process_fixture on;
  auto all = start_peers(on, 2, {"--policy", "sync", "--epochs", "100000"});
  on.await(all.front(), "training", is_kind("update"));
  for (const auto& one : all)
    check_listeners(one, 1);
}
