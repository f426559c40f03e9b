// Runs with several shards under the virtual clock: the weights of one shard,
// whatever happens.

#include "apps/lab/replay_plan.hpp"
#include "tests/simulation/virtual_test.hpp"
#include "tests/support/wished.hpp"

#include <catch2/catch_test_macros.hpp>

using namespace troupe;
using namespace troupe::test;
using testing::temporary_folder;
using testing::wished;

namespace {

words with_shards(uint32_t shards) {
  return {"--shards", std::to_string(shards)};
}

json summary_of_replay(const std::filesystem::path& event_log,
                       const std::filesystem::path& folder) {
  words all{"--replay", event_log.string(), "--train-dir", folder.string()};
  auto call = config::parse_command_line(all, config::environment{});
  app::virtual_run_options options;
  options.silent = true;
  options.replay = app::plan_replay(call, [](const std::string&) {});
  auto end = app::run_in_virtual_time(options.replay->config, options);
  REQUIRE(end.line.empty());
  return json::parse(text_of_file(folder / "summary.json"));
}

} // namespace

TEST_CASE("many seeds of every policy: the weights of one shard") {
  const auto seeds = wished("TROUPE_SEEDS", 20);
  for (uint64_t seed = 1; seed <= seeds; ++seed) {
    words optimizer{"--optimizer", seed % 3 == 0 ? "adam" : "sgd"};
    auto settings = various(seed, 8) + optimizer;
    auto one = run(settings);
    for (uint32_t shards : {2u, 3u, 4u, 7u}) {
      if (seed > 6 && shards % 4 != seed % 4)
        continue;
      INFO("seed " << seed << ", " << shards << " shards");
      auto many = run(settings + with_shards(shards));
      REQUIRE(many.summary["shards"] == shards);
      REQUIRE(figures(many.summary) == figures(one.summary));
    }
  }
}

TEST_CASE("a checkpoint of any number of shards is that of one") {
  temporary_folder folder;
  words settings{
    "--workers",    "3",   "--optimizer",    "adam",
    "--policy",     "ssp", "--max-steps",    "12",
    "--batch-size", "8",   "--compute-time", "gamma(mean=1,cv=0.5)"};
  auto whole = run(settings);
  auto begin = [&](uint32_t shards) {
    auto path = folder / ("run-" + std::to_string(shards));
    run_in(path, settings + with_shards(shards) + words{"--max-steps", "6"});
    return path;
  };
  std::string expected;
  for (uint32_t before : {1u, 3u}) {
    for (uint32_t after : {1u, 2u, 5u}) {
      INFO(before << " shards, then " << after);
      auto path = begin(before);
      auto rest =
        run_in(path, settings + with_shards(after) + words{"--resume", "auto"});
      if (expected.empty())
        expected = rest.sha256();
      CHECK(rest.sha256() == expected);
      std::filesystem::remove_all(path);
    }
  }
}

TEST_CASE("an event log of several shards is the same again") {
  for (uint64_t seed = 1; seed <= 8; ++seed) {
    INFO("seed " << seed);
    temporary_folder folder;
    auto settings = various(seed, 6, 2) +
                    with_shards(static_cast<uint32_t>(2 + seed % 4)) +
                    words{"--tape"};
    auto first = run_in(folder / "run", settings);
    auto again =
      summary_of_replay(folder / "run" / "tape-1.pb", folder / "again");
    CHECK(again["state_sha256"] == first.summary["state_sha256"]);
    CHECK(text_of_file(folder / "again" / "metrics.jsonl") == first.metrics);
  }
}

TEST_CASE("no fault breaks a promise with several shards") {
  const auto seeds = wished("TROUPE_SEEDS", 12);
  for (uint64_t seed = 1; seed <= seeds; ++seed) {
    INFO("seed " << seed);
    auto settings = various(seed, 30) + with_shards(1 + seed % 4) +
                    words{"--faults", "random(" + std::to_string(seed) + ")"};
    auto end = run(settings);
    CHECK(end.summary["status"] == "completed");
  }
}
