// Nodes that are told to stop end in time, and hand over what they have.

#include "tests/process/process_fixture.hpp"

#include <catch2/catch_test_macros.hpp>

#include <chrono>
#include <csignal>
#include <filesystem>

using namespace troupe::testing;

namespace {

using clock = std::chrono::steady_clock;

const flags no_end{"--epochs", "100000",    "--checkpoint-freq",
                   "100000",   "--workers", "1"};

} // namespace

TEST_CASE("a server ends in time though its evaluator hangs") {
  process_fixture on;
  auto server =
    on.listening_server(no_end + flags{"--grace", "4", "--eval-freq", "1"});
  auto worker = on.worker();
  auto evaluator = on.evaluator();
  evaluator.await("connected");
  on.await(server, "a score", is_kind("evaluation"));
  evaluator.signal(SIGSTOP);
  // Whatever it has sent is not about the last weights.
  auto newest = on.metrics().back()["step"].get<uint64_t>();
  on.await(server, "updates", is_step(newest + 5));
  auto told = clock::now();
  server.signal(SIGUSR1);
  eventually("a summary before the end", [&] {
    return std::filesystem::exists(on.run() / "summary.json");
  });
  CHECK(server.running());
  CHECK(on.summary()["status"] == "stopped");
  CHECK(!checkpoints_of(on.run()).empty());
  check_end(server, 75);
  auto took = clock::now() - told;
  CHECK(took > std::chrono::seconds(1)); // It gave the score some time.
  // 4 s of grace, and as much as a busy machine may add.
  CHECK(took < std::chrono::seconds(15));
  CHECK(on.summary()["final_accuracy"].is_null());
  check_end(worker, 0);
  evaluator.signal(SIGCONT);
}

TEST_CASE("a worker that is told to stop hands over what compression owes") {
  process_fixture on{recorded};
  auto server = on.listening_server(no_end + flags{"--compression", "int8"});
  auto folder = on.home() / "w";
  flags own{"--rank", "0", "--train-dir", folder.string()};
  auto first = on.worker(own);
  auto at = on.await(server, "its gradients", is_step(3));
  first.signal(SIGTERM);
  check_end(first, 0);
  CHECK(first.said("stopping +told to stop: a gradient that is under way"));
  CHECK(first.said("feedback +of worker 0 is left in"));
  at = on.await(server, "its end", is_kind("left"), at);
  CHECK(on.metrics()[at]["reason"] == "it ended");
  auto second = on.worker(own);
  on.await(server, "the next one", is_gradient_of(0), at);
  second.await("feedback +of worker 0, which has left, is taken over");
  CHECK(!std::filesystem::exists(folder / "residuals" / "left" /
                                 "worker-0.safetensors"));
  second.signal(SIGINT);
  check_end(second, 0);
  CHECK(!second.said("told to stop: a gradient"));
  server.signal(SIGTERM);
  check_end(server, 75);
}
