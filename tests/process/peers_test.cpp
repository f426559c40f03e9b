// Clusters of peers: every process is a worker and a shard (--topology peers).

#include "tests/process/process_fixture.hpp"

#include <catch2/catch_test_macros.hpp>

#include <csignal>

using namespace troupe::testing;

namespace {

const flags two_epochs{"--policy", "sync", "--epochs", "2", "--seed", "5"};

child start_peer(process_fixture& on, int rank, int peers, const flags& more) {
  return on.start("peer", flags{"--role", "auto", "--topology", "peers",
                                "--rank", std::to_string(rank), "--workers",
                                std::to_string(peers), "--init-method",
                                "tcp://127.0.0.1:" + on.port(), "--train-dir",
                                on.run().string(), "--threads", "1"} +
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

TEST_CASE("a peer that dies ends the run with one line, and the peers resume "
          "it") {
  const flags what{"--policy",          "async", "--epochs",    "12",
                   "--checkpoint-freq", "10",    "--clip-norm", "5"};
  process_fixture on;
  auto all = start_peers(on, 3, what);
  on.await(all[0], "a checkpoint", is_kind("checkpoint"));
  all[2].kill();
  check_end(all[0], 1);
  CHECK(all[0].err().find("parameter server shard 2 at 127.0.0.1:") !=
        std::string::npos);
  check_end(all[1], 1); // As a launcher expects it, which restarts all.
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
