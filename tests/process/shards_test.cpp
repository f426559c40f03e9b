// Several shards in the process of the parameter server, with real workers.

#include "tests/process/process_fixture.hpp"

#include <catch2/catch_test_macros.hpp>

#include <algorithm>

using namespace troupe::testing;

namespace {

const flags two_epochs{"--policy",    "sync", "--workers", "2",
                       "--epochs",    "2",    "--seed",    "5",
                       "--optimizer", "adam", "--lr",      "0.001"};

/// A run of two workers, to its end; the digest of all that comes out, the
/// optimiser's slots included.
std::string state_of(const flags& server_flags) {
  process_fixture on;
  auto server = on.listening_server(two_epochs + server_flags);
  auto evaluator = on.evaluator();
  auto first = on.worker({"--threads", "1"});
  auto second = on.worker({"--threads", "1"});
  for (auto* one : {&server, &first, &second, &evaluator})
    check_end(*one, 0);
  auto summary = on.summary();
  INFO(summary.dump(2));
  CHECK(summary["status"] == "completed");
  REQUIRE(summary["state_sha256"].is_string());
  return summary["state_sha256"];
}

} // namespace

TEST_CASE("workers of several shards get the weights of one") {
  auto expected = state_of(with_shards(1));
  for (auto shards : {2, 3, 7}) {
    INFO(shards << " shards");
    CHECK(state_of(with_shards(shards)) == expected);
  }
}

TEST_CASE("shards serve each path") {
  auto expected = state_of(with_shards(1));
  for (std::string path : {"shm", "stream", "chunked"}) {
    INFO(path);
    CHECK(state_of(with_shards(3) + flags{"--transport", path}) == expected);
  }
}

TEST_CASE("a killed server of several shards goes on with another number") {
  process_fixture on{recorded};
  const flags what{"--workers",         "2",  "--epochs", "12",
                   "--checkpoint-freq", "10", "--policy", "ssp"};
  auto server = on.listening_server(what + with_shards(3));
  std::vector<child> workers;
  for (int i = 0; i < 2; ++i)
    workers.push_back(on.worker());
  auto saved = on.await(server, "a checkpoint", is_kind("checkpoint"));
  on.await(server, "more than it holds", is_kind("update"), saved);
  server.kill();
  server = on.server(what + with_shards(2) + flags{"--resume", "auto"});
  auto resumed = on.await(server, "that it goes on", is_kind("resumed"));
  for (uint32_t i = 0; i < 2; ++i)
    on.await(server, "worker " + std::to_string(i), is_gradient_of(i), resumed);
  check_end(server, 0);
  for (auto& worker : workers)
    check_end(worker, 0);
  auto summary = on.summary();
  CHECK(summary["status"] == "completed");
  CHECK(summary["shards"] == 2);
  auto kept = committed_of(on.metrics());
  CHECK(kept.resumes == 1);
  CHECK(settled_in(on.run() / "checkpoints" /
                   checkpoints_of(on.run()).back()) == kept.samples);
  check_replayed(on);
}

TEST_CASE("a worker that is killed leaves several shards training") {
  process_fixture on{recorded};
  auto server =
    on.listening_server({"--workers", "2", "--epochs", "10", "--shards", "3"});
  auto first = on.worker();
  on.await(server, "the first", is_kind("joined"));
  auto second = on.worker();
  auto begun = on.await(server, "gradients of worker 1", is_gradient_of(1));
  second.kill();
  auto left = on.await(server, "that it left", is_kind("left"), begun);
  on.await(server, "the other going on", is_kind("update"), left);
  check_end(server, 0);
  check_end(first, 0);
  auto kept = committed_of(on.metrics());
  CHECK(on.summary()["samples_applied"] == kept.samples);
  check_replayed(on);
}
