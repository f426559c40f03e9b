// Clusters of peers: every process is a worker and a shard (--topology peers).

#include "tests/process/process_fixture.hpp"

#include <catch2/catch_test_macros.hpp>

#include <algorithm>
#include <cmath>
#include <csignal>

using namespace troupe::testing;

namespace {

const flags two_epochs{"--policy", "sync", "--epochs", "2", "--seed", "5"};

/// @param meet As in --init-method.
child start_peer(process_fixture& on, int rank, int peers, const flags& more,
                 const std::string& meet = {}) {
  return on.start("peer",
                  flags{"--role", "auto", "--topology", "peers", "--rank",
                        std::to_string(rank), "--workers",
                        std::to_string(peers), "--init-method",
                        meet.empty() ? "tcp://127.0.0.1:" + on.port() : meet,
                        "--train-dir", on.run().string(), "--threads", "1"} +
                    more);
}

std::vector<child> start_peers(process_fixture& on, int peers,
                               const flags& more) {
  std::vector<child> out;
  for (int rank = 0; rank < peers; ++rank)
    out.push_back(start_peer(on, rank, peers, more));
  return out;
}

void check_ends_of(std::vector<child>& all, int status) {
  for (auto& one : all)
    check_end(one, status);
}

json summary_of_peers(int peers, const flags& what) {
  process_fixture on;
  auto all = start_peers(on, peers, what);
  check_ends_of(all, 0);
  return on.summary();
}

json summary_of_star(int workers, const flags& what) {
  process_fixture on;
  auto server =
    on.listening_server(what + flags{"--workers", std::to_string(workers)});
  std::vector<child> all;
  for (int i = 0; i < workers; ++i)
    all.push_back(on.worker({"--threads", "1"}));
  check_ends_of(all, 0);
  check_end(server, 0);
  return on.summary();
}

} // namespace

TEST_CASE("peers make the weights of a server and its workers") {
  for (int peers : {1, 2, 4}) {
    INFO(peers);
    auto star = summary_of_star(peers, two_epochs);
    auto found = summary_of_peers(peers, two_epochs);
    check_same_result(found, star);
    CHECK(found["shards"] == peers);
    CHECK(found["workers"] == peers);
  }
}

TEST_CASE("a peer sends and gets 2(n-1)/n of the weights a step") {
  constexpr double weights = 431'080 * 4; // Bytes of LeNet's.
  for (int peers : {1, 2, 4}) {
    INFO(peers);
    auto found = summary_of_peers(peers, two_epochs);
    process_fixture alone;
    auto all =
      alone.simulate(two_epochs + flags{"--topology", "peers", "--workers",
                                        std::to_string(peers)});
    check_end(all, 0);
    auto expected = weights * 2 * (peers - 1) / peers;
    for (auto key : {"bytes_sent_per_step", "bytes_received_per_step"}) {
      REQUIRE(found[key].size() == static_cast<size_t>(peers));
      for (double bytes : found[key])
        CHECK(std::abs(bytes - expected) < 0.03 * weights);
      CHECK(alone.summary()[key] == found[key]);
    }
  }
}

TEST_CASE("peers serve each path, and clip by the whole norm") {
  auto what = two_epochs + flags{"--clip-norm", "0.5"};
  auto star = summary_of_star(2, what);
  for (std::string path : {"stream", "chunked"}) {
    INFO(path);
    check_same_result(summary_of_peers(2, what + flags{"--transport", path}),
                      star);
  }
}

TEST_CASE("a launcher's variables make peers") {
  process_fixture on;
  std::vector<child> all;
  for (auto rank : {"0", "1", "2"}) {
    child_options how;
    how.environment = {{"RANK", rank},
                       {"WORLD_SIZE", "3"},
                       {"MASTER_ADDR", "127.0.0.1"},
                       {"MASTER_PORT", on.port()}};
    // The last process is the evaluator.
    all.push_back(
      on.start("peer",
               flags{"--role", "auto", "--topology", "peers", "--evaluator",
                     "--train-dir", on.run().string()} +
                 two_epochs,
               how));
  }
  check_ends_of(all, 0);
  auto summary = on.summary();
  CHECK(summary["workers"] == 2);
  CHECK(summary["shards"] == 2);
  CHECK(summary["final_accuracy"] > 0.5);
}

TEST_CASE("the example of DistributedDataParallel runs, started by hand") {
  process_fixture on;
  const flags what{"--config",
                   TROUPE_EXAMPLES "/distributed-data-parallel.ini"};
  auto all = start_peers(on, 2, what);
  check_ends_of(all, 0);
  CHECK(on.summary()["epochs"] == 4);
}

TEST_CASE(
  "peers meet through a file, even one that a killed cluster has left") {
  process_fixture on;
  auto file = on.home() / "meet";
  auto meet = "file://" + file.string();
  auto dead = start_peer(on, 0, 2, two_epochs, meet);
  dead.await("waiting");
  dead.kill();
  REQUIRE(std::filesystem::exists(file));
  auto second = start_peer(on, 1, 2, two_epochs, meet);
  second.await("looking for");
  auto first = start_peer(on, 0, 2, two_epochs + flags{"--overwrite"}, meet);
  first.await("connected");
  auto intruder = start_peer(on, 0, 2, two_epochs, meet);
  check_end(intruder, 1);
  CHECK(intruder.err().find("rank 0 of another cluster has this file") !=
        std::string::npos);
  check_end(first, 0);
  check_end(second, 0);
  CHECK(on.summary()["status"] == "completed");
  CHECK_FALSE(std::filesystem::exists(file));
}

TEST_CASE("a file that peers cannot meet through is one line") {
  process_fixture on;
  const flags hasty = two_epochs + flags{"--connect-timeout", "0.5"};
  auto check = [&](int rank, const std::string& meet, int status,
                   const std::string& line) {
    auto peer = start_peer(on, rank, 2, hasty, meet);
    check_end(peer, status);
    INFO(peer.report());
    CHECK(peer.err().find(line) != std::string::npos);
    CHECK(std::ranges::count(peer.err(), '\n') == 1);
    CHECK_FALSE(std::filesystem::exists(on.run()));
  };
  auto home = on.home().string();
  check(1, "file://" + home + "/not-shared", 1,
        "rank 0 has written nothing there within 0.5 s: does it run, and do "
        "all nodes share this folder?");
  check(0, "file://" + home + "/no/folder", 1, "No such file or directory");
  check(0, "file://meet", 2, "must be env://, tcp://HOST:PORT or file:///PATH");
}

TEST_CASE("each policy trains on peers, and applies each sample once") {
  for (std::string policy : {"async", "ssp", "backup"}) {
    INFO(policy);
    process_fixture on;
    auto all =
      start_peers(on, 2, {"--policy", policy, "--epochs", "4", "--lr", "0.02"});
    check_ends_of(all, 0);
    auto kept = committed_of(on.metrics());
    CHECK(on.summary()["samples_applied"] == kept.samples);
  }
}

TEST_CASE("peers go on without those that die") {
  const flags what{"--epochs", "12", "--checkpoint-freq", "10", "--lr", "0.02"};
  for (std::string policy : {"sync", "async"}) {
    INFO(policy);
    process_fixture on;
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
  process_fixture on;
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
                 what,
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
}

TEST_CASE("peers go on without one that is stopped, which ends when it wakes") {
  process_fixture on;
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
  "without rank 0 the run ends with one line, and the peers resume it") {
  const flags what{"--policy",          "async", "--epochs",          "12",
                   "--checkpoint-freq", "10",    "--connect-timeout", "2"};
  process_fixture on;
  auto all = start_peers(on, 3, what);
  on.await(all[0], "a checkpoint", is_kind("checkpoint"));
  all[0].kill();
  for (size_t rank : {1, 2}) {
    check_end(all[rank], 1); // As a launcher expects it, which restarts all.
    CHECK(all[rank].err().find("within 2 s") != std::string::npos);
  }
  all = start_peers(on, 3, what + flags{"--resume", "auto"});
  check_ends_of(all, 0);
  check_completed(on, 12);
}

TEST_CASE("a signal to any peer stops the run with a checkpoint") {
  for (size_t told : {0, 1}) {
    INFO(told);
    process_fixture on;
    auto all = start_peers(on, 2, {"--policy", "async", "--epochs", "1000"});
    on.await(all[0], "an update", is_kind("update"));
    all[told].signal(SIGTERM);
    check_ends_of(all, 75);
    CHECK(on.summary()["status"] == "stopped");
    CHECK(checkpoints_of(on.run()).size() == 1);
  }
}

TEST_CASE("peers that do not fit are refused in one line") {
  process_fixture on;
  const flags long_run{"--policy", "sync", "--epochs", "40"};
  auto lead = start_peer(on, 0, 2, long_run);
  auto other_size = start_peer(on, 1, 3, long_run);
  check_end(other_size, 2);
  CHECK(other_size.err().find("refuses this node: [cluster] shards = 3 here, "
                              "but 2") != std::string::npos);
  auto second = start_peer(on, 1, 2, long_run);
  second.await("connected .* as parameter server shard 1");
  auto same_rank =
    start_peer(on, 1, 2, long_run + flags{"--connect-timeout", "1"});
  check_end(same_rank, 1);
  CHECK(same_rank.err().find("of rank 1 already") != std::string::npos);
  check_end(second, 0);
  check_end(lead, 0);
}
