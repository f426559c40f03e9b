// Peers that die, and peers that join: the others go on by themselves.

#include "tests/process/peers.hpp"

#include <catch2/catch_test_macros.hpp>

#include <algorithm>
#include <csignal>

using namespace troupe::testing;

namespace {

/// Whether the process has blocked SIGTERM, to read it.
bool waits_for_signals(pid_t process) {
  auto status = slurp("/proc/" + std::to_string(process) + "/status");
  auto at = status.find("SigBlk:");
  if (at == std::string::npos)
    return false;
  auto mask = std::stoull(status.substr(at + 7, 18), nullptr, 16);
  return (mask >> (SIGTERM - 1) & 1) != 0;
}

} // namespace

TEST_CASE("peers go on without those that die") {
  const flags what{"--epochs", "12", "--checkpoint-freq", "10", "--lr", "0.02"};
  for (std::string policy : {"sync", "async"}) {
    INFO(policy);
    process_fixture on{recorded};
    auto all =
      start_peers(on, 4, what + flags{"--policy", policy, "--clip-norm", "5"});
    on.await(all[0], "a checkpoint", is_kind("checkpoint"));
    all[1].kill();
    all[0].await("goes on .* the nodes that are left, 3, go on");
    auto seen = on.await(all[0], "the next life", is_kind("resumed"));
    on.await(all[0], "a checkpoint", is_kind("checkpoint"), seen);
    all[3].kill();
    check_end(all[0], 0);
    check_end(all[2], 0);
    auto kept = check_completed(on, 12);
    CHECK(kept.resumes == 2);
    CHECK(on.summary()["workers"] == 2);
    CHECK(on.summary()["shards"] == 2);
  }
}

TEST_CASE("peers go on without some that die before the first checkpoint, with "
          "batches of the same size and an evaluator") {
  process_fixture on{recorded};
  auto meet = "file://" + (on.home() / "meet").string();
  const flags what{
    "--policy", "sync",       "--epochs", "3", "--global-batch-size",
    "96",       "--evaluator"};
  std::vector<child> all;
  for (int rank = 0; rank < 5; ++rank) {
    child_options how;
    how.environment = {{"RANK", std::to_string(rank)}, {"WORLD_SIZE", "5"}};
    all.push_back(
      on.start("peer",
               flags{"--role", "auto", "--topology", "peers", "--init-method",
                     meet, "--train-dir", on.run().string(), "--threads", "1"} +
                 recording(on) + what,
               how));
  }
  on.await(all[0], "an update", is_step(3));
  all[1].kill();
  all[2].kill();
  check_end(all[0], 0);
  check_end(all[3], 0);
  check_end(all[4], 0); // The evaluator.
  auto summary = on.summary();
  CHECK(summary["workers"] == 2);
  CHECK(summary["final_accuracy"].is_number());
  CHECK(slurp(on.run() / "config.ini").find("global-batch-size = 48") !=
        std::string::npos);
  check_replayed(on);
}

TEST_CASE("peers go on without one that is stopped, which ends when it wakes") {
  process_fixture on{recorded};
  auto all =
    start_peers(on, 3,
                {"--policy", "sync", "--epochs", "12", "--checkpoint-freq",
                 "10", "--liveness-timeout", "2"});
  on.await(all[0], "a checkpoint", is_kind("checkpoint"));
  all[1].signal(SIGSTOP);
  on.await(all[0], "the next life", is_kind("resumed"));
  all[1].signal(SIGCONT);
  check_end(all[1], 2);
  CHECK(all[1].err().find("refuses this node") != std::string::npos);
  CHECK(std::ranges::count(all[1].err(), '\n') == 1);
  check_end(all[0], 0);
  check_end(all[2], 0);
  check_completed(on, 12);
}

TEST_CASE(
  "a signal between two lives of peers stops them, as one at the start") {
  process_fixture on;
  auto all = start_peers(
    on, 3,
    {"--policy", "sync", "--epochs", "100000", "--checkpoint-freq", "10"});
  on.await(all[0], "a checkpoint", is_kind("checkpoint"));
  all[2].kill();
  for (auto rank : {0, 1})
    all[rank].await("goes on ");
  for (auto rank : {0, 1})
    all[rank].signal(SIGTERM);
  for (auto rank : {0, 1}) {
    check_end(all[rank], 75);
    CHECK(std::ranges::count(all[rank].err(), '\n') <= 1);
  }
  auto alone =
    start_peer(on, 1, 2, {}, "file://" + (on.home() / "meet").string());
  eventually("its start", [&] { return waits_for_signals(alone.pid()); });
  alone.signal(SIGTERM);
  check_end(alone, 75);
  CHECK(alone.err() ==
        "trainer_node: stopped by a signal before the run began\n");
}

TEST_CASE("peers go on without rank 0, and without who leads after it") {
  for (std::string policy : {"sync", "async"}) {
    INFO(policy);
    process_fixture on{recorded};
    auto all = start_peers(on, 4,
                           {"--policy", policy, "--epochs", "12",
                            "--checkpoint-freq", "10", "--lr", "0.02"});
    auto evaluator = on.evaluator();
    on.await(all[0], "a checkpoint", is_kind("checkpoint"));
    all[0].kill();
    all[1].await("goes on .* the nodes that are left, 3, go on");
    auto seen = on.await(all[1], "the next life", is_kind("resumed"));
    on.await(all[1], "a checkpoint", is_kind("checkpoint"), seen);
    all[1].kill();
    check_end(all[2], 0);
    check_end(all[3], 0);
    check_end(evaluator, 0);
    auto kept = check_completed(on, 12);
    CHECK(kept.resumes == 2);
    CHECK(on.summary()["workers"] == 2);
    CHECK(on.summary()["final_accuracy"].is_number());
  }
}

TEST_CASE("peers go on without rank 0 and others that die at the same time") {
  process_fixture on{recorded};
  auto all = start_peers(on, 4,
                         {"--policy", "sync", "--epochs", "12",
                          "--checkpoint-freq", "10", "--liveness-timeout", "2"},
                         "file://" + (on.home() / "meet").string());
  on.await(all[0], "a checkpoint", is_kind("checkpoint"));
  for (auto rank : {0, 1})
    all[rank].kill();
  check_end(all[2], 0);
  check_end(all[3], 0);
  check_completed(on, 12);
  CHECK(on.summary()["workers"] == 2);
}

TEST_CASE("a peer without the run's files does not lead the next life") {
  process_fixture on;
  child_options how;
  auto elsewhere = (on.home() / "elsewhere").string();
  how.environment = {
    {"TROUPE_NEXT_LIFE", "0 2 0 0 1 a1b2 - 2 127.0.0.1:" + on.port() +
                           " 127.0.0.1:1 " + elsewhere}};
  auto peer = on.start("peer",
                       flags{"--role", "auto", "--topology", "peers", "--rank",
                             "1", "--workers", "3"},
                       how);
  check_end(peer, 1);
  CHECK(peer.err().find("elsewhere: no such run here: rank 0 of the run is "
                        "lost") != std::string::npos);
  CHECK_FALSE(std::filesystem::exists(elsewhere));
}

TEST_CASE("a node that joins peers gets a shard") {
  for (bool at_once : {true, false}) {
    INFO(at_once);
    process_fixture on{recorded};
    flags what{"--policy",          "sync", "--epochs",           "16",
               "--checkpoint-freq", "10",   "--liveness-timeout", "2"};
    if (at_once)
      what = what + flags{"--reshard-on-join"};
    auto all = start_peers(on, 3, what);
    on.await(all[0], "an update", is_step(3));
    auto joiner = join_peers(on, what);
    joiner.await("connected .* as worker 3 ");
    if (!at_once) { // Without a checkpoint the next life would begin anew.
      on.await(all[0], "a checkpoint", is_kind("checkpoint"));
      all[1].kill();
    }
    joiner.await("as parameter server shard");
    check_end(joiner, 0);
    check_end(all[0], 0);
    check_end(all[2], 0);
    auto kept = check_completed(on, 16);
    CHECK(kept.resumes == 1);
    CHECK(on.summary()["shards"] == (at_once ? 4 : 3));
    if (at_once) // A checkpoint was taken before, so nothing was lost.
      CHECK(kept.rolled_back == 0);
  }
}
