// Networks in segments under the virtual clock: remote modules and pipelines
// make the same weights as workers that each compute the whole network. And
// peers with replicas.

#include "apps/lab/replay_plan.hpp"
#include "tests/simulation/virtual_test.hpp"
#include "tests/support/wished.hpp"

#include <catch2/catch_approx.hpp>
#include <catch2/catch_test_macros.hpp>

using namespace troupe;
using namespace troupe::test;
using Catch::Approx;
using testing::temporary_folder;
using testing::wished;

namespace {

const words remote{"--mode", "remote-forward"};

words placed(const std::string& rules) {
  return remote + words{"--placement", rules};
}

words pipeline(uint32_t stages, uint32_t micro_batches) {
  return {"--mode",          "pipeline",
          "--stages",        std::to_string(stages),
          "--micro-batches", std::to_string(micro_batches)};
}

/// A pipeline with one stage for each rule.
words by_hand(const std::string& rules) {
  return {"--mode",      "pipeline", "--micro-batches", "4",
          "--placement", rules,      "--shards",        "2"};
}

words with_faults(uint64_t seed) {
  return {"--faults", "random(" + std::to_string(seed) + ")"};
}

const words lenet{"--workers",   "3",    "--batch-size", "8",
                  "--eval-freq", "1000", "--max-steps",  "6"};

/// Batch normalisation, and a segment whose input is also that of a shortcut.
const words resnet{
  "--network",    "resnet20",
  "--dataset",    "synthetic(shape=3x16x16,classes=4,samples=200)",
  "--workers",    "2",
  "--eval-freq",  "1000",
  "--max-steps",  "3",
  "--batch-size", "8"};

} // namespace

TEST_CASE("remote modules make the weights of local networks") {
  for (const words& optimizer :
       {words{"--optimizer", "sgd"}, words{"--optimizer", "adam"}}) {
    auto settings = lenet + optimizer;
    auto local = run(settings);
    for (const auto& how :
         {remote, placed("conv*=ps:0,*=worker"), placed("conv1=worker,*=ps:0"),
          placed("conv1=ps:0,conv2=worker,fc1=ps:0,fc2=worker"),
          placed("*=worker")}) {
      INFO(how.back());
      auto found = run(settings + how);
      CHECK(found.sha256() == local.sha256());
      CHECK(found.summary["mode"] == "remote-forward");
      CHECK(found.summary["samples_applied"] ==
            local.summary["samples_applied"]);
    }
  }
}

TEST_CASE("remote modules keep running statistics as the rule says") {
  for (const char* rule : {"average", "first", "local"}) {
    INFO(rule);
    auto settings = resnet + words{"--buffers", rule};
    auto local = run(settings);
    for (const auto& how :
         {remote, placed("layer1*=ps:0,*=worker"),
          placed("conv1=worker,layer*=ps:0,fc=worker"), pipeline(3, 1)})
      CHECK(run(settings + how).sha256() == local.sha256());
  }
}

TEST_CASE("pipelines make the gradients of micro-batches") {
  for (const auto& settings : {lenet, resnet}) {
    for (uint32_t micro_batches : {2u, 4u}) {
      auto size = std::to_string(8 / micro_batches);
      auto whole = run(settings + words{"--micro-batch-size", size});
      for (uint32_t stages : {2u, 3u}) {
        const auto* order = (stages + micro_batches / 2) % 2 ? "gpipe" : "1f1b";
        CHECK(run(settings + pipeline(stages, micro_batches) +
                  words{"--schedule", order})
                .sha256() == whole.sha256());
      }
      CHECK(
        run(settings + remote + words{"--micro-batch-size", size}).sha256() ==
        whole.sha256());
    }
  }
}

TEST_CASE("segments compute in bfloat16 as whole networks do") {
  auto settings = lenet + words{"--autocast", "bf16"};
  auto whole = run(settings);
  CHECK(run(settings + pipeline(2, 1)).sha256() == whole.sha256());
  CHECK(run(settings + placed("conv*=ps:0,*=worker")).sha256() ==
        whole.sha256());
}

TEST_CASE("a pipeline is idle for K - 1 micro-batches of M + K - 1") {
  for (uint32_t stages : {2u, 3u, 4u})
    for (uint32_t micro_batches : {1u, 2u, 8u})
      for (const char* order : {"gpipe", "1f1b"}) {
        INFO(stages << " stages, " << micro_batches << " micro-batches");
        auto found = run(lenet + pipeline(stages, micro_batches) +
                         words{"--schedule", order});
        auto all = micro_batches + stages - 1.0;
        CHECK(found.summary["bubble_share"] == Approx((stages - 1) / all));
        // Each of K M passes takes its part of a second, one after the other.
        CHECK(found.seconds_per_step() ==
              Approx(all / (stages * micro_batches)));
      }
}

TEST_CASE("the lines of [placement] are the stages of a pipeline") {
  auto settings = lenet + words{"--micro-batch-size", "2"};
  auto whole = run(settings);
  for (const char* stages :
       {"conv*=worker,*=worker:cpu", "conv*=ps:0,*=worker",
        "conv1=worker,conv2=ps:1,fc*=ps:0", "conv*=ps:0,fc*=ps:0"}) {
    INFO(stages);
    auto found = run(lenet + by_hand(stages));
    CHECK(found.sha256() == whole.sha256());
    CHECK(found.summary["bubble_share"] > 0.1);
    if (std::string{stages}.find("ps:") != std::string::npos)
      CHECK(found.summary["contexts_left"] == 0);
  }
}

TEST_CASE("no fault breaks a promise with networks in segments") {
  const auto seeds = wished("TROUPE_SEEDS", 16);
  for (uint64_t seed = 1; seed <= seeds; ++seed) {
    INFO("seed " << seed);
    // Local steps are for whole networks.
    auto settings = various(seed, 20) + with_faults(seed) +
                    words{"--local-steps", "0", "--inner-optimizer", "adamw"};
    words how = pipeline(2, 4);
    if (seed % 4 != 0)
      how = seed % 2 ? remote : placed("conv*=ps:0,*=worker");
    else if (seed % 8 != 0)
      how = by_hand("conv*=ps:0,*=worker");
    auto found = run(settings + how);
    CHECK(found.summary["status"] == "completed");
    if (seed % 8 != 0)
      CHECK(found.summary["contexts_left"] == 0);
  }
}

TEST_CASE("activations take their time on links") {
  // 8 x 28 x 28 floats go up and 8 x 10 come down for forward; for backward
  // 8 x 10 go up, and nothing comes down, since nobody needs the gradient of
  // samples. A run's time begins with its first pass, after the first way up.
  constexpr double images = 8 * 28 * 28 * 4;
  constexpr double scores = 8 * 10 * 4;
  auto settings =
    words{"--workers",   "1", "--batch-size", "8",    "--eval-freq", "1000",
          "--max-steps", "4", "--link-rate",  "25088"};
  auto found = run(settings + remote);
  auto bytes = 3 * images + 4 * 2 * scores;
  CHECK(found.seconds() == Approx(4 + bytes / 25088));
}

TEST_CASE("an event log of remote modules is the same again") {
  temporary_folder folder;
  auto first =
    run_in(folder / "run",
           various(3, 6, 2) + placed("conv*=ps:0,*=worker") + words{"--tape"});
  words all{"--replay", (folder / "run" / "tape-1.pb").string(), "--train-dir",
            (folder / "again").string()};
  auto call = config::parse_command_line(all, config::environment{});
  app::virtual_run_options options;
  options.silent = true;
  options.replay = app::plan_replay(call, [](const std::string&) {});
  auto end = app::run_in_virtual_time(options.replay->config, options);
  CHECK(end.line.empty());
  auto again = json::parse(text_of_file(folder / "again" / "summary.json"));
  CHECK(again["state_sha256"] == first.summary["state_sha256"]);
}

TEST_CASE("peers with replicas keep all promises under faults, and have the "
          "weights of a server's workers") {
  const words replicas{"--replicas", "2", "--max-steps", "12"};
  uint64_t seed = 0;
  for (const auto& settings : {lenet, resnet})
    for (const char* policy : {"sync", "backup", "ssp", "async"}) {
      INFO(policy);
      auto all =
        settings + replicas + words{"--policy", policy} + with_faults(++seed);
      auto star = run(all);
      auto peers = run(all + words{"--topology", "peers"});
      CHECK(peers.sha256() == star.sha256());
      CHECK(peers.summary["shards"] == peers.summary["workers"]);
    }
}
