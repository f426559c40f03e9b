// Who leads a run when its lead is lost or stopped, and what keeps two
// processes from leading it at the same time: on file systems without locks,
// with locks that everybody gets, and with locks that outlive their holder.

#include "tests/process/peers.hpp"

#include <catch2/catch_test_macros.hpp>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <thread>
#include <utility>

using namespace troupe::testing;

namespace {

const flags endless{"--policy",          "sync", "--epochs",           "100000",
                    "--checkpoint-freq", "10",   "--liveness-timeout", "2"};

constexpr std::chrono::seconds longer_than_liveness{3};

child_options with_locks(const std::string& kind) {
  child_options out;
  out.environment = {{"LD_PRELOAD", TROUPE_TROUBLED_FILES},
                     {"TROUBLE_LOCKS", kind}};
  return out;
}

/// A copy of the process's descriptor of the run's lock: it lives as long as
/// this one, as on a file server that does not know yet that a host is lost.
class lingering_lock {
public:
  explicit lingering_lock(pid_t process) {
    auto folder = "/proc/" + std::to_string(process) + "/fd";
    for (const auto& entry : std::filesystem::directory_iterator{folder})
      if (std::error_code none;
          read_symlink(entry.path(), none).filename() == "run.lock")
        note_process(process, std::stoi(entry.path().filename().string()));
  }

  ~lingering_lock() { end(); }

  bool held() const { return file_ >= 0; }

  void end() {
    if (file_ >= 0)
      ::close(std::exchange(file_, -1));
  }

private:
  void note_process(pid_t process, int number) {
    auto pidfd = static_cast<int>(::syscall(SYS_pidfd_open, process, 0));
    file_ = static_cast<int>(::syscall(SYS_pidfd_getfd, pidfd, number, 0));
    ::close(pidfd);
  }

  int file_ = -1;
};

/// A run of which all nodes have died, and others that are to go on with it.
struct lost_run {
  lost_run() {
    auto first = start_peers(on, 2, what);
    on.await(first[0], "a checkpoint", is_kind("checkpoint"));
    for (auto& one : first)
      one.kill();
  }

  /// A node that listens where the others know it.
  /// @param nodes Of all that are known, where they are.
  child next_life(size_t rank, int peers, const flags& nodes) {
    auto text = std::to_string(rank) + " " + std::to_string(peers) +
                " 0 0 1 - " + nodes[rank] + " " + std::to_string(nodes.size());
    for (const auto& one : nodes)
      text += " " + one;
    child_options how;
    how.environment = {{"TROUPE_NEXT_LIFE", text + " " + on.run().string()}};
    return on.start("peer", peer_flags(on, {}) + recording(on) + what, how);
  }

  process_fixture on{recorded};
  flags what{"--policy", "sync", "--epochs", "6", "--checkpoint-freq", "10"};
};

std::string free_address() {
  return "127.0.0.1:" + std::to_string(free_port());
}

/// Ends the run of these nodes, and checks that its updates are in order.
void check_stops(process_fixture& on, std::vector<child>& all) {
  for (auto& one : all)
    one.signal(SIGTERM);
  check_ends_of(all, 75);
  CHECK_NOTHROW(committed_of(on.metrics()));
  check_replayed(on);
}

} // namespace

TEST_CASE("where locks keep nobody out, nobody leads after a stopped rank 0") {
  for (std::string kind : {"granted", "none"}) {
    INFO(kind);
    process_fixture on{recorded};
    std::vector<child> all;
    for (auto rank : {"0", "1", "2"})
      all.push_back(on.start(
        "peer",
        peer_flags(on, "") + recording(on) + endless +
          flags{"--rank", rank, "--workers", "3", "--connect-timeout", "6"},
        with_locks(kind)));
    all[0].await("warning .*; no other node can lead this run");
    all[1].await("no other node can lead this run when rank 0 is lost");
    on.await(all[0], "a checkpoint", is_kind("checkpoint"));
    all[0].signal(SIGSTOP);
    for (auto rank : {1, 2}) {
      check_end(all[rank], 1);
      CHECK(all[rank].err().starts_with("trainer_node: "));
    }
    all[0].signal(SIGCONT);
    all[0].signal(SIGTERM);
    all[0].wait();
    CHECK_NOTHROW(committed_of(on.metrics()));
    check_replayed(on);
  }
}

TEST_CASE("a server that was stopped ends when another leads its run since") {
  process_fixture on;
  auto start = [&](const flags& more) {
    return on.start("ps",
                    flags{"--role", "ps", "--train-dir", on.run().string()} +
                      endless + more,
                    with_locks("none"));
  };
  auto first = start({"--port", on.port(), "--workers", "1"});
  auto worker = on.worker({"--connect-timeout", "1"});
  on.await(first, "a checkpoint", is_kind("checkpoint"));
  first.signal(SIGSTOP);
  auto second = start({"--port", "0", "--workers", "1", "--resume", "auto"});
  second.await("resumed ");
  auto written = on.metrics().size();
  first.signal(SIGCONT);
  check_end(first, 1);
  CHECK(first.err().find("another process leads this run since") !=
        std::string::npos);
  CHECK(std::ranges::count(first.err(), '\n') == 1);
  CHECK(on.metrics().size() == written);
  second.signal(SIGTERM);
  check_end(second, 75);
  CHECK_NOTHROW(committed_of(on.metrics()));
  CHECK(on.summary()["status"] == "stopped");
  worker.kill();
}

TEST_CASE("the next lead waits for a lock that outlives its holder") {
  process_fixture on{recorded};
  auto all = start_peers(on, 3, endless);
  on.await(all[0], "a checkpoint", is_kind("checkpoint"));
  lingering_lock lock{all[0].pid()};
  REQUIRE(lock.held());
  all[0].kill();
  for (auto rank : {1, 2})
    all[rank].await("or for the lock of the run, which process [0-9]+ on .* "
                    "holds: for 120 s at most");
  lock.end();
  on.await(all[1], "the next life", is_kind("resumed"));
  all.erase(all.begin());
  check_stops(on, all);
  CHECK(on.summary()["workers"] == 2);
}

TEST_CASE("a rank 0 that stood still leads all others when it wakes") {
  process_fixture on{recorded};
  auto all = start_peers(on, 3, endless);
  on.await(all[0], "a checkpoint", is_kind("checkpoint"));
  all[0].signal(SIGSTOP);
  std::this_thread::sleep_for(longer_than_liveness);
  auto before = on.metrics().size();
  all[0].signal(SIGCONT);
  on.await(all[0], "the next life", is_kind("resumed"), before);
  on.await(all[0], "a checkpoint", is_kind("checkpoint"), before + 1);
  check_stops(on, all);
  CHECK(on.summary()["workers"] == 3);
}

TEST_CASE("nodes that a dying lead has told different lists find together") {
  lost_run run;
  const flags node{free_address(), free_address(), free_address()};
  const std::string dead = "127.0.0.1:1";
  std::vector<child> all;
  all.push_back(run.next_life(0, 3, node));
  // This node asks the lead, for a life of four.
  all.push_back(run.next_life(2, 4, {node[0], dead, node[1], node[2]}));
  // This node asks one that does not lead, for another life of three.
  all.push_back(run.next_life(2, 3, {node[1], dead, node[2]}));
  for (auto which : {1, 2})
    all[which].await("goes on +the run has other nodes by now, 3, led from");
  for (auto& one : all)
    check_end(one, 0);
  check_completed(run.on, 6);
  CHECK(run.on.summary()["shards"] == 3);
}

TEST_CASE("a node that waits for a dead lead longer than others finds them") {
  lost_run run;
  auto first = free_address();
  auto second = free_address();
  auto late = run.next_life(2, 3, {"127.0.0.1:1", first, second});
  late.await("waiting +for the lead shard at 127.0.0.1:1: ");
  // This one has the lock before the other would begin its next life.
  auto lead = run.next_life(0, 2, {first, second});
  late.await("waiting .* for the lock of the run, which process [0-9]+ on");
  late.await("goes on +the run has other nodes by now, 2, led from " + first);
  check_end(late, 0);
  check_end(lead, 0);
  check_completed(run.on, 6);
  CHECK(run.on.summary()["shards"] == 2);
}

TEST_CASE("a server, its shards and its workers go on when all stood still") {
  process_fixture on{recorded};
  sharded_server server{on, 2, endless + flags{"--workers", "1"}};
  auto worker = on.worker();
  on.await(server.lead, "a checkpoint", is_kind("checkpoint"));
  auto all = {&server.lead, &server.others[0], &worker};
  for (auto* one : all)
    one->signal(SIGSTOP);
  std::this_thread::sleep_for(longer_than_liveness);
  auto before = on.metrics().size();
  for (auto* one : all)
    one->signal(SIGCONT);
  on.await(server.lead, "a checkpoint", is_kind("checkpoint"), before + 1);
  for (auto* one : all)
    CHECK(one->running());
  server.lead.signal(SIGTERM);
  check_end(server.lead, 75);
  check_replayed(on);
}
