// Clusters of peers: every process is a worker and a shard (--topology peers).

#include "tests/process/peers.hpp"

#include <catch2/catch_test_macros.hpp>

#include <cmath>
#include <csignal>

using namespace troupe::testing;

namespace {

const flags two_epochs{"--policy", "sync", "--epochs", "2", "--seed", "5"};

json summary_of_peers(int peers, const flags& options) {
  process_fixture on;
  auto all = start_peers(on, peers, options);
  check_ends_of(all, 0);
  return on.summary();
}

json summary_of_star(int workers, const flags& options) {
  process_fixture on;
  auto server =
    on.listening_server(options + flags{"--workers", std::to_string(workers)});
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

TEST_CASE("peers make local steps, and their log is replayed") {
  auto how = two_epochs + flags{"--local-steps",   "4", "--fragments", "2",
                                "--overlap-steps", "2"};
  auto star = summary_of_star(2, how);
  process_fixture on{recorded};
  auto all = start_peers(on, 2, how);
  check_ends_of(all, 0);
  auto found = on.summary();
  check_same_result(found, star);
  CHECK(found["local_steps"] == 4);
  CHECK(found["samples_applied"] == 2 * digits);
  check_replayed(on);
}

TEST_CASE("a peer sends and gets 2(n-1)/n of the weights a step") {
  constexpr double weights = 431'080 * 4; // Bytes of LeNet's.
  // Whole steps: who has no samples for the last one sends nothing in it.
  const auto what = two_epochs + flags{"--max-steps", "10"};
  for (int peers : {1, 2, 4}) {
    INFO(peers);
    auto found = summary_of_peers(peers, what);
    process_fixture alone;
    auto all = alone.simulate(
      what + flags{"--topology", "peers", "--workers", std::to_string(peers)});
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

// While they wait for the last one: later it is a matter of chance how many
// gradients are under way in each of them. Rank 0 draws the weights: then it
// has a network and what is copied from it.
TEST_CASE("rank 0 begins with at most two models more than the others") {
  constexpr uint64_t model = 43'700; // KiB: 11.2 million weights.
  constexpr uint64_t rest = 12'000;  // What a lead needs besides.
  process_fixture on;
  const flags what{
    "--network",    "resnet18_cifar",
    "--dataset",    "synthetic(shape=3x16x16,classes=10,samples=16)",
    "--batch-size", "2",
    "--optimizer",  "adam",
    "--max-steps",  "1"};
  std::vector<child> all;
  for (int rank : {0, 1})
    all.push_back(start_peer(on, rank, 3, what));
  all[1].await("as parameter server shard 1");
  CHECK(memory_of(all[0].pid(), "VmHWM") <
        memory_of(all[1].pid(), "VmHWM") + 2 * model + rest);
  all.push_back(start_peer(on, 2, 3, what));
  check_ends_of(all, 0);
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
  CHECK(intruder.err().find("the lead of another run has this place") !=
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
        "no lead has written where it is within 0.5 s: does it run, and do "
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

TEST_CASE("a peer of a run that is complete says so, and ends") {
  process_fixture on;
  auto all = start_peers(on, 2, {"--epochs", "1"});
  check_ends_of(all, 0);
  auto again = start_peer(on, 0, 2, {"--resume", "auto"});
  check_end(again, 0);
  CHECK(again.out().find("complete     reached epochs = 1 before") !=
        std::string::npos);
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
