// Every policy trains the digits with the settings that a user gets who gives
// none, in one process and across five.

#include "tests/process/process_fixture.hpp"

#include <catch2/catch_test_macros.hpp>

#include <algorithm>
#include <numeric>
#include <regex>

using namespace troupe::testing;

namespace {

constexpr double wanted_accuracy = 0.96;

/// Far above what a run takes by itself; other tests run meanwhile.
constexpr std::chrono::seconds whole_run{240};

/// Most updates that others can make while a worker computes.
uint64_t most_stale(const std::string& policy, uint64_t workers) {
  constexpr uint64_t s = 3; // The default of --staleness.
  if (policy == "sync" || policy == "backup")
    return 0;
  // The others are at most s clocks behind when it begins, s ahead when it
  // ends.
  if (policy == "ssp")
    return (workers - 1) * (2 * s + 1);
  return UINT64_MAX;
}

void check_staleness(const json& summary) {
  const auto& staleness = summary["staleness"];
  auto counts = staleness["histogram"].get<std::vector<uint64_t>>();
  CHECK(std::accumulate(counts.begin(), counts.end(), uint64_t{0}) ==
        summary["gradients_applied"]);
  CHECK(staleness["max"].get<uint64_t>() <=
        most_stale(summary["policy"], summary["workers"].get<uint64_t>()));
  if (summary["policy"] == "async")
    CHECK(staleness["mean"].get<double>() > 0);
}

/// What a run must learn. With a constant learning rate, gradients that are
/// late throw ssp and async off for some steps now and then, and a run may end
/// in such a moment (docs/policies.md); so they are asked for the best weights,
/// which are kept, and the others for the last.
void check_learning(const json& summary) {
  bool late = summary["policy"] == "ssp" || summary["policy"] == "async";
  auto kind = std::string{late ? "best" : "final"};
  CHECK(summary[kind + "_accuracy"].get<double>() >= wanted_accuracy);
  CHECK(summary["best_accuracy"] >= summary["final_accuracy"]);
  if (!late)
    CHECK(summary["final_loss"].get<double>() < 0.3);
}

/// Each epoch covers each sample, and nothing is applied beyond the last one.
void check_samples(const json& summary, const std::vector<json>& metrics,
                   const std::filesystem::path& last_checkpoint,
                   uint64_t epochs) {
  auto applied = summary["samples_applied"].get<uint64_t>();
  CHECK(committed_of(metrics).samples == applied);
  CHECK(settled_in(last_checkpoint) == applied);
  CHECK(applied == epochs * digits);
  CHECK(static_cast<uint64_t>(std::count_if(metrics.begin(), metrics.end(),
                                            is_kind("epoch"))) == epochs);
  if (summary["policy"] != "backup")
    CHECK(summary["gradients_dropped"] == 0);
}

void check_run(process_fixture& on, const std::string& policy, uint64_t workers,
               const std::string& transport) {
  auto summary = on.summary();
  auto metrics = on.metrics();
  INFO(summary.dump(2));
  CHECK(summary["status"] == "completed");
  CHECK(summary["policy"] == policy);
  CHECK(summary["workers"] == workers);
  CHECK(summary["shards"] == 1);
  CHECK(summary["seed"] == 1);
  CHECK(summary["virtual_seconds"].is_null());
  check_learning(summary);
  CHECK(summary["steps"] == committed_of(metrics).updates.size());
  CHECK(summary["wait_share"].get<double>() >= 0);
  CHECK(summary["wait_share"].get<double>() <= 1);
  CHECK(summary["accepted_share"].size() == workers);
  CHECK(summary["transport"].size() == workers);
  for (uint64_t i = 0; i < workers; ++i)
    CHECK(summary["transport"]["worker-" + std::to_string(i)] == transport);
  for (auto key : {"weights_sha256", "state_sha256"})
    CHECK(std::regex_match(summary[key].get<std::string>(),
                           std::regex{"[0-9a-f]{64}"}));
  check_staleness(summary);

  auto check =
    on.start("check", {"--config", (on.run() / "config.ini").string(), "--role",
                       "ps", "--check"});
  check_end(check, 0);
  auto shown =
    on.start("print", {"--config", (on.run() / "config.ini").string(),
                       "--print-config"});
  check_end(shown, 0);
  std::smatch epochs;
  auto text = shown.out();
  REQUIRE(std::regex_search(text, epochs, std::regex{"\n *epochs *= *(\\d+)"}));
  auto names = checkpoints_of(on.run());
  REQUIRE(!names.empty());
  auto steps = std::to_string(summary["steps"].get<uint64_t>());
  CHECK(names.back() == "step-" + std::string(8 - steps.size(), '0') + steps);
  for (const auto& name :
       {"manifest.pb", "model.safetensors", "optimizer.safetensors"})
    CHECK(
      std::filesystem::exists(on.run() / "checkpoints" / names.back() / name));
  check_samples(summary, metrics, on.run() / "checkpoints" / names.back(),
                std::stoull(epochs[1]));
}

void train_in_one_process(const std::string& policy) {
  process_fixture on;
  auto all = on.simulate({"--policy", policy});
  check_end(all, 0, whole_run);
  check_run(on, policy, 4, "inproc");
}

void train_across_processes(const std::string& policy) {
  process_fixture on;
  auto server = on.listening_server({"--policy", policy, "--workers", "3"});
  auto evaluator = on.evaluator();
  evaluator.await("connected .* as evaluator");
  std::vector<child> workers;
  for (int i = 0; i < 3; ++i)
    workers.push_back(on.worker());
  check_end(server, 0, whole_run);
  for (auto& worker : workers)
    check_end(worker, 0);
  check_end(evaluator, 0);
  check_run(on, policy, 3, "shm");
}

} // namespace

TEST_CASE("sync trains in one process") {
  train_in_one_process("sync");
}

TEST_CASE("async trains in one process") {
  train_in_one_process("async");
}

TEST_CASE("sync trains across processes") {
  train_across_processes("sync");
}

TEST_CASE("backup trains across processes") {
  train_across_processes("backup");
}

TEST_CASE("ssp trains across processes") {
  train_across_processes("ssp");
}

TEST_CASE("async trains across processes") {
  train_across_processes("async");
}
