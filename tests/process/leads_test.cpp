// Two processes that would lead one run: where a file system has no locks, or
// grants them to everybody, and where a lead was stopped for long.

#include "tests/process/peers.hpp"

#include <catch2/catch_test_macros.hpp>

#include <algorithm>
#include <csignal>

using namespace troupe::testing;

namespace {

const flags endless{"--policy",          "sync", "--epochs",           "100000",
                    "--checkpoint-freq", "10",   "--liveness-timeout", "2"};

child_options with_locks(const std::string& kind) {
  child_options out;
  out.environment = {{"LD_PRELOAD", TROUPE_TROUBLED_FILES},
                     {"TROUBLE_LOCKS", kind}};
  return out;
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
