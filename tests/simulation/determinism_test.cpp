// Same seed and settings: same weights, same metrics, in the same order.

#include "tests/simulation/virtual_test.hpp"

#include <catch2/catch_test_macros.hpp>

using namespace troupe::test;

TEST_CASE("two hundred seeds give the same run twice, and each another one") {
  std::string before;
  for (uint64_t seed = 1; seed <= 200; ++seed) {
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
