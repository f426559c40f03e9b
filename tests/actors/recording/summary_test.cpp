#include "actors/recording/summary.hpp"
#include "config/text/failure.hpp"
#include "tests/support/temporary_folder.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

using namespace troupe;
using namespace troupe::recording;
using testing::slurp;
using testing::temporary_folder;

namespace {

const std::string expected_text = R"({
  "status": "completed",
  "policy": "ssp",
  "steps": 500,
  "epochs": 3.25,
  "workers": 2,
  "shards": 1,
  "samples_applied": 32000,
  "samples_dropped": 64,
  "gradients_applied": 500,
  "gradients_dropped": 1,
  "gradients_refused": 2,
  "samples_left_out": 3,
  "samples_partly_applied": 5,
  "samples_skipped": 4,
  "fp16_overflows": 6,
  "wall_seconds": 21.5,
  "virtual_seconds": null,
  "samples_per_second": 1495.5,
  "final_loss": 0.0625,
  "final_accuracy": 0.98,
  "final_accuracy_top5": 1.0,
  "final_metrics": {
    "accuracy": 0.98,
    "loss": 0.0625,
    "accuracy_top5": 1.0
  },
  "best_accuracy": 0.985,
  "best_metric": {
    "name": "accuracy",
    "rule": "max",
    "value": 0.985,
    "step": 450
  },
  "best_step": 450,
  "best_weights": "best.safetensors",
  "staleness": {
    "mean": 0.75,
    "max": 2,
    "histogram": [
      125,
      375,
      0
    ]
  },
  "wait_share": 0.125,
  "data_wait_share": 0.0625,
  "mode": "pipeline",
  "local_steps": 4,
  "bubble_share": 0.125,
  "contexts_left": null,
  "accepted_share": [
    1.0,
    null
  ],
  "weights_sha256": "ab",
  "state_sha256": "cd",
  "seed": 1,
  "sharding": "static",
  "transport": {
    "worker-0": "inproc",
    "worker-1": "chunked"
  },
  "bytes_sent_per_step": [
    1024.5,
    0.0
  ],
  "bytes_received_per_step": [
    0.0,
    1024.5
  ],
  "changes": [],
  "slowness": [
    1.0,
    null
  ],
  "first_failure": {
    "role": "worker",
    "rank": 1,
    "host": "node-a",
    "pid": 4711,
    "time": 12.5,
    "what": "connection lost",
    "lines": [
      "Killed"
    ]
  },
  "troupe_version": "0.1.0"
}
)";

} // namespace

TEST_CASE("a summary has all its keys in their order") {
  summary x;
  x.status = "completed";
  x.policy = "ssp";
  x.steps = 500;
  x.epochs = 3.25;
  x.workers = 2;
  x.samples_applied = 32000;
  x.samples_dropped = 64;
  x.gradients_applied = 500;
  x.gradients_dropped = 1;
  x.gradients_refused = 2;
  x.samples_left_out = 3;
  x.samples_partly_applied = 5;
  x.samples_skipped = 4;
  x.fp16_overflows = 6;
  x.wall_seconds = 21.5;
  x.samples_per_second = 1495.5;
  x.final_metrics = {
    {"accuracy", 0.98}, {"loss", 0.0625}, {"accuracy_top5", 1}};
  x.best_by = {"accuracy"};
  x.best_value = 0.985;
  x.best_step = 450;
  x.best_weights = "best.safetensors";
  x.staleness = {0.75, 2, {125, 375, 0}};
  x.wait_share = 0.125;
  x.data_wait_share = 0.0625;
  x.mode = "pipeline";
  x.local_steps = 4;
  x.bubble_share = 0.125;
  x.accepted_share = {1.0, std::nullopt};
  x.weights_sha256 = "ab";
  x.state_sha256 = "cd";
  x.seed = 1;
  x.sharding = "static";
  x.transport = {{"worker-0", "inproc"}, {"worker-1", "chunked"}};
  x.bytes_sent_per_step = {1024.5, 0};
  x.bytes_received_per_step = {0, 1024.5};
  x.slowness = {1.0, std::nullopt};
  x.first_failure = {"worker",          1,         "node-a", 4711, 12.5,
                     "connection lost", {"Killed"}};
  x.troupe_version = "0.1.0";
  CHECK(to_json(x) == expected_text);
}

TEST_CASE("what a run does not have is null") {
  auto text = to_json(summary{});
  for (const auto* key :
       {"virtual_seconds", "final_loss", "final_accuracy",
        "final_accuracy_top5", "final_metrics", "best_accuracy", "best_metric",
        "best_step", "best_weights", "weights_sha256", "state_sha256",
        "bytes_sent_per_step", "bytes_received_per_step", "first_failure"})
    CHECK_THAT(text, Catch::Matchers::ContainsSubstring(
                       "\"" + std::string{key} + "\": null"));
  CHECK_THAT(text, Catch::Matchers::ContainsSubstring("\"transport\": {}"));
  CHECK_THAT(text, Catch::Matchers::ContainsSubstring("\"histogram\": []"));
}

TEST_CASE("a summary replaces the one before and leaves nothing else") {
  temporary_folder folder;
  summary x;
  x.status = "stopped";
  write_summary(folder / "summary.json", x);
  x.status = "completed";
  write_summary(folder / "summary.json", x);
  CHECK(slurp(folder / "summary.json") == to_json(x));
  CHECK(std::distance(std::filesystem::directory_iterator{folder.path()}, {}) ==
        1);
  CHECK_THROWS_AS(write_summary(folder / "absent" / "summary.json", x),
                  run_error);
}
