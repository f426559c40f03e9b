// Evaluators that follow a run, end before it, or come late with a score; and
// the best weights, which their scores decide on.

#include "models/storage/safetensors.hpp"
#include "tests/process/process_fixture.hpp"

#include <catch2/catch_test_macros.hpp>

#include <csignal>

using namespace troupe::testing;

TEST_CASE("An evaluator follows a folder of checkpoints to the end") {
  process_fixture on;
  auto evaluator = on.evaluator({"--follow", on.run().string()});
  auto server =
    on.listening_server({"--workers", "1", "--epochs", "3", "--checkpoint-freq",
                         "20", "--ema-decay", "0.9"});
  auto worker = on.worker();
  check_end(server, 0);
  check_end(worker, 0);
  check_end(evaluator, 0);
  auto steps = on.summary()["steps"].get<uint64_t>();
  CHECK(evaluator.said("evaluation +step " + std::to_string(steps) +
                       " +accuracy .* ema/accuracy"));
}

TEST_CASE("A run ends without its evaluator") {
  for (auto number : {SIGKILL, SIGTERM}) {
    process_fixture on;
    auto server = on.listening_server({"--workers", "2", "--epochs", "5"});
    auto evaluator = on.evaluator();
    evaluator.await("connected .* as evaluator");
    auto workers = workers_of(on, 2);
    on.await(server, "training", is_step(5));
    evaluator.signal(number);
    check_end(evaluator, number == SIGKILL ? 128 + SIGKILL : 0);
    check_end(server, 0);
    check_ends_of(workers, 0);
    CHECK(on.summary()["final_accuracy"].is_null());
  }
}

TEST_CASE("A run waits only so long for the last score") {
  process_fixture on;
  auto server = on.listening_server(
    {"--workers", "2", "--epochs", "2", "--eval-timeout", "1"});
  auto evaluator = on.evaluator();
  evaluator.await("connected .* as evaluator");
  evaluator.signal(SIGSTOP);
  auto workers = workers_of(on, 2);
  check_end(server, 0);
  check_ends_of(workers, 0);
  auto summary = on.summary();
  CHECK(summary["status"] == "completed");
  CHECK(summary["final_accuracy"].is_null());
  evaluator.kill();
}

TEST_CASE("the best weights are whole whenever the server is killed") {
  const flags what{
    "--workers",         "2", "--epochs",    "30", "--policy", "ssp",
    "--checkpoint-freq", "5", "--eval-freq", "1",  "--seed",   "3"};
  process_fixture on{recorded};
  auto server = on.server(what);
  auto workers = workers_of(on, 2);
  auto evaluator = on.evaluator();
  auto path = on.run() / "best.safetensors";
  double best = -1;
  for (uint64_t step : {40, 80, 120}) {
    on.await(server, "step " + std::to_string(step), is_step(step));
    server.kill();
    if (std::filesystem::exists(path)) {
      auto about = troupe::models::read_safetensors(path).metadata();
      auto accuracy = std::stod(about.at("accuracy"));
      CHECK(accuracy >= best);
      best = accuracy;
    }
    server = on.server(what + flags{"--resume", "auto"});
  }
  check_end(server, 0);
  check_ends_of(workers, 0);
  check_end(evaluator, 0);
  CHECK(best > 0);
  auto summary = on.summary();
  CHECK(summary["best_weights"] == "best.safetensors");
  auto about = troupe::models::read_safetensors(path).metadata();
  CHECK(std::stoull(about.at("step")) == summary["best_step"]);
  CHECK(std::stod(about.at("accuracy")) == summary["best_accuracy"]);
  check_replayed(on);
}
