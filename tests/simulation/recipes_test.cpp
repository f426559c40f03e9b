// Recipes under the virtual clock: they survive restarts and replays, and do
// not depend on shards.

#include "apps/lab/replay_plan.hpp"
#include "models/optim/learning_rate.hpp"
#include "models/storage/best_weights.hpp"
#include "models/storage/checkpoint.hpp"
#include "tests/simulation/virtual_test.hpp"
#include "tests/support/metrics.hpp"

#include <catch2/catch_approx.hpp>
#include <catch2/catch_test_macros.hpp>

#include <cmath>
#include <cstring>
#include <span>

using namespace troupe;
using namespace troupe::test;
using testing::temporary_folder;

namespace {

namespace fs = std::filesystem;

/// All of a recipe but clipping.
const words recipe{"--workers",
                   "3",
                   "--batch-size",
                   "32",
                   "--lr",
                   "0.05",
                   "--nesterov",
                   "--lr-schedule",
                   "cosine(min=0.001)",
                   "--warmup-epochs",
                   "0.5",
                   "--weight-decay",
                   "0.01",
                   "--weight-decay-exclude",
                   "bias+norm",
                   "--label-smoothing",
                   "0.1",
                   "--micro-batch-size",
                   "20"};

virtual_outcome replayed(const fs::path& event_log, const fs::path& folder,
                         const words& more = {}) {
  auto all =
    words{"--replay", event_log.string(), "--train-dir", folder.string()};
  auto call = config::parse_command_line(all + more, config::environment{});
  app::virtual_run_options options;
  options.silent = true;
  options.replay = app::plan_replay(call, [](const std::string&) {});
  auto end = app::run_in_virtual_time(options.replay->config, options);
  REQUIRE(end.line.empty());
  return {json::parse(text_of_file(folder / "summary.json")),
          text_of_file(folder / "metrics.jsonl")};
}

std::vector<json> lines_of(const virtual_outcome& from, const char* kind) {
  std::vector<json> out;
  std::istringstream text{from.metrics};
  for (std::string line; std::getline(text, line);)
    if (auto read = json::parse(line); read["kind"] == kind)
      out.push_back(std::move(read));
  return out;
}

std::vector<double> weights_in(const fs::path& checkpoint) {
  auto file = models::read_safetensors(checkpoint / "model.safetensors");
  std::vector<double> out;
  for (const auto& tensor : file.tensors()) {
    REQUIRE(tensor.dtype == "F64");
    auto first = out.size();
    out.resize(first + tensor.bytes.size() / sizeof(double));
    std::memcpy(out.data() + first, tensor.bytes.data(), tensor.bytes.size());
  }
  return out;
}

} // namespace

TEST_CASE("a run that is resumed within its schedule has the same bits") {
  auto all = recipe + words{"--epochs", "2", "--clip-norm", "0.5"};
  auto whole = run(all);
  temporary_folder folder;
  run_in(folder / "run", all + words{"--max-steps", "11"});
  auto rest = run_in(folder / "run", all + words{"--resume", "auto"});
  CHECK(rest.summary["steps"] == whole.summary["steps"]);
  CHECK(rest.sha256() == whole.sha256());
}

TEST_CASE("the rate of each step is that of the samples before it") {
  for (auto policy : {"sync", "backup", "ssp", "async"}) {
    INFO(policy);
    auto found =
      run(recipe + words{"--epochs", "2", "--policy", policy, "--compute-time",
                         "exp(offset=0.5,mean=0.5)"});
    config::training_settings settings;
    settings.lr = 0.05;
    settings.lr_schedule = "cosine(min=0.001)";
    settings.warmup_epochs = 0.5;
    settings.epochs = 2;
    models::learning_rate rate{settings};
    double before = 0;
    for (const auto& step : lines_of(found, "update")) {
      REQUIRE(step["lr"].get<double>() == rate.at({before, 0}));
      before = step["epoch"];
    }
    CHECK(before >= 2);
  }
}

TEST_CASE("a recipe has the bits of one shard with any number of them") {
  for (auto policy : {"sync", "ssp"}) {
    auto all = recipe + words{"--max-steps",    "12",
                              "--clip-norm",    "0.5",
                              "--policy",       policy,
                              "--compute-time", "exp(offset=0.5,mean=0.5)"};
    auto one = run(all);
    for (auto shards : {"2", "3", "7"}) {
      INFO(policy << ", " << shards << " shards");
      auto many = run(all + words{"--shards", shards});
      CHECK(figures(many.summary) == figures(one.summary));
    }
  }
  // The same with running statistics, which lie behind the lead's part.
  words normalised{"--network",
                   "resnet20",
                   "--dataset",
                   "synthetic(samples=200)",
                   "--workers",
                   "2",
                   "--batch-size",
                   "8",
                   "--max-steps",
                   "3",
                   "--weight-decay",
                   "0.1",
                   "--weight-decay-exclude",
                   "norm",
                   "--evaluator",
                   "false"};
  CHECK(run(normalised + words{"--shards", "3"}).sha256() ==
        run(normalised).sha256());
}

TEST_CASE(
  "a recipe is the same again from its event log, best weights included") {
  for (auto policy : {"sync", "backup", "ssp", "async"}) {
    INFO(policy);
    temporary_folder folder;
    auto first =
      run_in(folder / "run",
             recipe + words{"--epochs", "2", "--policy", policy, "--tape",
                            "--eval-freq", "epoch", "--clip-norm", "1",
                            "--compute-time", "exp(offset=0.5,mean=0.5)"});
    auto again = replayed(folder / "run" / "tape-1.pb", folder / "again");
    CHECK(again.metrics == first.metrics);
    CHECK(figures(again.summary) == figures(first.summary));
    CHECK(first.summary["best_weights"] == "best.safetensors");
    auto same = text_of_file(folder / "again" / "best.safetensors") ==
                text_of_file(folder / "run" / "best.safetensors");
    CHECK(same);
  }
}

TEST_CASE("a replay that ends early has the rates of the run") {
  temporary_folder folder;
  run_in(folder / "run",
         recipe + words{"--max-steps", "10", "--tape", "--checkpoint-freq", "1",
                        "--keep", "99"});
  replayed(folder / "run" / "tape-1.pb", folder / "again",
           {"--max-steps", "6"});
  auto same = text_of_file(folder / "again" / "checkpoints" / "step-00000006" /
                           "model.safetensors") ==
              text_of_file(folder / "run" / "checkpoints" / "step-00000006" /
                           "model.safetensors");
  CHECK(same);
}

TEST_CASE("clipped gradients of N workers are those of one N-fold batch") {
  temporary_folder folder;
  words all{"--dtype",
            "float64",
            "--clip-norm",
            "0.5",
            "--epochs",
            "1",
            "--weight-decay",
            "0.01",
            "--weight-decay-exclude",
            "bias",
            "--evaluator",
            "false"};
  auto four = run_in(folder / "four", all + words{"--workers", "4",
                                                  "--global-batch-size", "96"});
  auto one = run_in(folder / "one",
                    all + words{"--workers", "1", "--global-batch-size", "96"});
  REQUIRE(four.summary["steps"] == one.summary["steps"]);
  auto last = models::checkpoint_name(one.summary["steps"]);
  auto left = weights_in(folder / "four" / "checkpoints" / last);
  auto right = weights_in(folder / "one" / "checkpoints" / last);
  REQUIRE(left.size() == right.size());
  double most = 0;
  for (size_t i = 0; i < left.size(); ++i)
    most = std::max(most, std::abs(left[i] - right[i]));
  CHECK(most < 1e-9);
  // The norm was in fact clipped.
  auto free = run({"--dtype", "float64", "--epochs", "1", "--workers", "1",
                   "--batch-size", "96", "--evaluator", "false"});
  CHECK(free.sha256() != one.sha256());
}

TEST_CASE("scores come at the end of each epoch") {
  auto found = run({"--epochs", "3", "--workers", "4", "--batch-size", "50",
                    "--eval-freq", "epoch"});
  auto epochs = lines_of(found, "epoch");
  auto scores = lines_of(found, "evaluation");
  REQUIRE(epochs.size() == 3);
  REQUIRE(scores.size() == 3);
  for (size_t i = 0; i < 3; ++i)
    CHECK(scores[i]["step"] == epochs[i]["step"]);
  CHECK(found.summary["final_accuracy_top5"].get<double>() >=
        found.summary["final_accuracy"].get<double>());
}

TEST_CASE("the best weights are kept, whatever comes after") {
  temporary_folder folder;
  auto path = folder / "run";
  words all{"--workers",         "2", "--eval-freq", "3",
            "--checkpoint-freq", "3", "--keep",      "1"};
  auto first = run_in(path, all + words{"--max-steps", "9"});
  REQUIRE(first.summary["best_weights"] == "best.safetensors");
  auto id = models::read_checkpoint(path / "checkpoints" / "step-00000009")
              .manifest.run_id();
  auto kept = models::open_best(path, id);
  REQUIRE(kept);
  CHECK(kept->step == first.summary["best_step"]);
  CHECK(config::value_of(kept->metrics, "accuracy") ==
        first.summary["best_accuracy"]);

  // A score that cannot be beaten: as if a crash had rolled it back.
  auto file = models::read_safetensors(path / "best.safetensors");
  models::write_best(path, {99, testing::found(1.5, 0.25)}, id, file.tensors());
  auto before = text_of_file(path / "best.safetensors");
  auto second =
    run_in(path, all + words{"--max-steps", "15", "--resume", "auto"});
  CHECK(text_of_file(path / "best.safetensors") == before);
  CHECK(second.summary["best_step"] == 99);
  CHECK(second.summary["best_weights"] == "best.safetensors");

  // A run that begins anew in that folder keeps none of the earlier scores.
  auto third = run_in(path, all + words{"--max-steps", "3", "--overwrite"});
  CHECK(third.summary["best_step"] == 3);
  CHECK(models::open_best(path, id)->step == 3);

  auto without = run_in(
    folder / "other", all + words{"--max-steps", "3", "--keep-best", "false"});
  CHECK(without.summary["best_weights"].is_null());
  CHECK_FALSE(fs::exists(folder / "other" / "best.safetensors"));
}

TEST_CASE("digits are learned in bfloat16") {
  auto found = run({"--autocast", "bf16", "--workers", "2", "--batch-size",
                    "64", "--epochs", "10", "--lr", "0.05", "--nesterov",
                    "--lr-schedule", "cosine", "--eval-freq", "epoch"});
  CHECK(found.summary["final_accuracy"].get<double>() > 0.93);
}
