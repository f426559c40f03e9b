// Same seed and settings: same weights, same metrics, in the same order.

#include "tests/simulation/virtual_test.hpp"
#include "tests/support/wished.hpp"

#include <catch2/catch_test_macros.hpp>

#include <cmath>

using namespace troupe::test;

TEST_CASE("each of many seeds gives the same run twice, and another one") {
  const auto seeds = troupe::testing::wished("TROUPE_SEEDS", 30);
  std::string before;
  for (uint64_t seed = 1; seed <= seeds; ++seed) {
    INFO("seed " << seed);
    auto first = run(various(seed, 4));
    auto second = run(various(seed, 4));
    REQUIRE(first.sha256() == second.sha256());
    REQUIRE(first.metrics == second.metrics);
    REQUIRE(first.seconds() == second.seconds());
    REQUIRE(first.sha256() != before);
    before = first.sha256();
  }
}

TEST_CASE("a longer run with scores and checkpoints is the same twice") {
  std::vector<std::string> arguments{
    "--policy",          "ssp", "--workers",      "6",
    "--epochs",          "4",   "--eval-freq",    "10",
    "--checkpoint-freq", "20",  "--compute-time", "gamma(mean=1,cv=0.5)"};
  auto first = run(arguments);
  auto second = run(arguments);
  CHECK(first.sha256() == second.sha256());
  CHECK(first.metrics == second.metrics);
  auto with_other_times = arguments;
  with_other_times.back() = "gamma(mean=1,cv=0.4)";
  CHECK(run(with_other_times).sha256() != first.sha256());
}

TEST_CASE("compressed gradients train, and not to the same weights") {
  const std::vector<std::string> arguments{"--workers", "3",      "--epochs",
                                           "6",         "--seed", "2"};
  auto plain = run(arguments);
  for (std::string how : {"fp16", "bf16", "int8", "topk(share=0.05)"}) {
    INFO(how);
    auto compressed = arguments;
    compressed.insert(compressed.end(), {"--compression", how});
    auto outcome = run(compressed);
    CHECK(outcome.sha256() != plain.sha256());
    CHECK(outcome.summary["final_accuracy"] > 0.9);
    double share = how == "int8" ? 0.25 : how.ends_with("16") ? 0.5 : 0.1;
    double sent = outcome.summary["bytes_sent_per_step"][0];
    double of_plain = plain.summary["bytes_sent_per_step"][0];
    CHECK(std::abs(sent / of_plain - share) < 0.02 * share);
    compressed.insert(compressed.end(), {"--epochs", "1"});
    CHECK(run(compressed).sha256() == run(compressed).sha256());
  }
}

TEST_CASE("smaller gradients take less time on a slow link") {
  std::vector<std::string> arguments{
    "--workers",   "2",   "--max-steps", "20",    "--gradients",   "none",
    "--link-rate", "1e6", "--policy",    "async", "--compression", "none"};
  auto plain = run(arguments);
  arguments.back() = "topk(share=0.01)";
  auto compressed = run(arguments);
  // 1.7 MB both ways, or on the way back alone.
  CHECK(compressed.seconds() < 0.75 * plain.seconds());
}

TEST_CASE("what compression left out is there again when a run is resumed") {
  for (std::string how : {"fp16", "int8", "topk(share=0.02)"}) {
    INFO(how);
    const std::vector<std::string> common{
      "--workers", "3", "--checkpoint-freq", "7", "--compression", how};
    auto steps = [&](const char* count, const char* resume) {
      auto out = common;
      out.insert(out.end(), {"--max-steps", count});
      if (resume)
        out.insert(out.end(), {"--resume", resume});
      return out;
    };
    troupe::testing::temporary_folder folder;
    run_in(folder / "run", steps("10", nullptr));
    auto second = run_in(folder / "run", steps("20", "auto"));
    CHECK(run(steps("20", nullptr)).sha256() == second.sha256());
  }
}

TEST_CASE("a run that is stopped and resumed ends as the policy says") {
  troupe::testing::temporary_folder folder;
  auto first = run_in(folder / "run", {"--max-steps", "10", "--workers", "2"});
  auto second = run_in(folder / "run", {"--max-steps", "20", "--workers", "2",
                                        "--resume", "auto"});
  CHECK(first.seconds() == 10);
  CHECK(second.seconds() == 20);
  CHECK(second.summary["steps"] == 20);
  auto whole = run({"--max-steps", "20", "--workers", "2"});
  CHECK(whole.sha256() == second.sha256());
}
