// Evaluators that follow a run, end before it, or come late with a score; and
// the best weights, which their scores decide on.

#include "models/storage/safetensors.hpp"
#include "tests/process/process_fixture.hpp"

#include <catch2/catch_test_macros.hpp>

#include <algorithm>
#include <csignal>
#include <fstream>

using namespace troupe::testing;

TEST_CASE("an evaluator follows a folder of checkpoints to the end") {
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

namespace {

std::vector<json> scores_in(const std::filesystem::path& folder) {
  std::vector<json> out;
  std::ifstream in{folder / "scores.jsonl"};
  for (std::string line; std::getline(in, line);)
    if (auto one = json::parse(line); one["kind"] == "evaluation")
      out.push_back(one);
  return out;
}

} // namespace

TEST_CASE("a folder's checkpoints are scored in order, once, and kept") {
  process_fixture on;
  auto run = on.simulate({"--epochs", "2", "--checkpoint-freq", "4", "--keep",
                          "100", "--evaluator", "false"});
  check_end(run, 0);
  auto last = on.summary()["steps"].get<uint64_t>();
  auto own = on.home() / "scores";
  auto score = [&](const flags& more) {
    auto evaluator = on.evaluator(flags{"--follow", on.run().string()} + more);
    check_end(evaluator, 0);
  };
  std::vector<uint64_t> wanted;
  for (uint64_t step = 8; step < last; step += 8)
    wanted.push_back(step);
  wanted.push_back(last);
  for (int start = 0; start < 2; ++start) { // The second finds all done.
    score({"--every", "8", "--train-dir", own.string()});
    std::vector<uint64_t> found;
    for (const auto& one : scores_in(own))
      found.push_back(one["step"]);
    CHECK(found == wanted);
  }
  double best = 0;
  for (const auto& one : scores_in(own))
    best = std::max(best, one["accuracy"].get<double>());
  CHECK(scores_in(own).back()["best"]["value"] == best);
  score({}); // The newest alone, beside the run's own files.
  auto newest = scores_in(on.run());
  REQUIRE(newest.size() == 1);
  CHECK(newest[0]["step"] == last);
}

TEST_CASE("an evaluator of a folder refuses what it has no use for") {
  process_fixture on;
  auto run = on.simulate({"--max-steps", "1", "--evaluator", "false"});
  check_end(run, 0);
  struct refusal {
    flags more;
    int status;
    std::string why;
  };
  for (const auto& one : std::vector<refusal>{
         {{"--network", "mnist_net"}, 2, "network = mnist_net here, but lenet"},
         {{"--dataset", "mnist", "--data-dir", "."}, 2, "dataset = mnist here"},
         {{"--data-dir", "."}, 2, "digits, the data set in the run"},
         {{"--eval-freq", "3"}, 2, "--eval-freq 3: means nothing with"},
         {{"--follow", "absent", "--connect-timeout", "1"},
          1,
          "--follow absent: no run has come there within 1 s"}}) {
    auto evaluator =
      on.evaluator(flags{"--follow", on.run().string()} + one.more);
    check_end(evaluator, one.status);
    INFO(evaluator.report());
    CHECK(evaluator.err().find(one.why) != std::string::npos);
  }
}

TEST_CASE("a run ends without its evaluator") {
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

TEST_CASE("a run waits only so long for the last score") {
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
    "--workers",         "2", "--epochs",    "15", "--policy", "ssp",
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
