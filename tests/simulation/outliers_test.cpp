// Runs whose gradients are judged by their norms. The factor is so small that
// honest gradients are refused.

#include "apps/lab/replay_plan.hpp"
#include "tests/simulation/virtual_test.hpp"

#include <catch2/catch_test_macros.hpp>

using namespace troupe;
using namespace troupe::test;
using testing::temporary_folder;

namespace {

/// Batches are so small that their gradients differ much.
const words strict{"--workers",
                   "4",
                   "--batch-size",
                   "4",
                   "--eval-freq",
                   "1000",
                   "--outliers",
                   "refuse(factor=1.5)",
                   "--tape",
                   "--compute-time",
                   "gamma(mean=1,cv=0.5)"};

words under(const std::string& policy) {
  auto one_by_one = policy == "ssp" || policy == "async";
  return {"--policy", policy, "--max-steps", one_by_one ? "160" : "40"};
}

uint64_t refused_in(const virtual_outcome& of) {
  return of.summary["gradients_refused"];
}

void check_replay(const std::filesystem::path& of, const virtual_outcome& run,
                  const std::filesystem::path& folder) {
  words all{"--replay", (of / "tape-1.pb").string(), "--train-dir",
            folder.string()};
  auto call = config::parse_command_line(all, config::environment{});
  app::virtual_run_options options;
  options.silent = true;
  options.replay = app::plan_replay(call, [](const std::string&) {});
  auto end = app::run_in_virtual_time(options.replay->config, options);
  REQUIRE(end.line.empty());
  CHECK(text_of_file(folder / "metrics.jsonl") == run.metrics);
  auto again = json::parse(text_of_file(folder / "summary.json"));
  CHECK(again["state_sha256"] == run.sha256());
}

} // namespace

TEST_CASE("under every policy the same gradients are refused, in a repetition, "
          "in a replay and with more shards") {
  for (const auto* policy : {"sync", "backup", "ssp", "async"}) {
    INFO(policy);
    temporary_folder folder;
    auto first = run_in(folder / "run", strict + under(policy));
    CHECK(refused_in(first) > 0);
    CHECK(run(strict + under(policy)).metrics == first.metrics);
    check_replay(folder / "run", first, folder / "again");
    auto shards = run(strict + under(policy) + words{"--shards", "3"});
    CHECK(figures(shards.summary) == figures(first.summary));
  }
}

TEST_CASE("the log has the norm and the median of what was refused") {
  auto found = run(strict + under("sync"));
  std::istringstream lines{found.metrics};
  uint64_t refused = 0;
  for (std::string line; std::getline(lines, line);) {
    auto entry = json::parse(line);
    if (entry["kind"] != "refused")
      continue;
    ++refused;
    CHECK(entry["norm"].get<double>() > 1.5 * entry["median"].get<double>());
  }
  CHECK(refused == refused_in(found));
}

TEST_CASE("outliers are found among compressed gradients, and in networks of "
          "several parts") {
  for (const auto& how :
       {words{"--compression", "int8"},
        words{"--compression", "topk(share=0.1)"},
        words{"--mode", "remote-forward", "--placement", "conv*=ps:0,*=worker"},
        words{"--mode", "pipeline", "--stages", "2", "--micro-batches", "4"},
        words{"--topology", "peers"}}) {
    INFO(how[1]);
    auto first = run(strict + under("sync") + how);
    CHECK(refused_in(first) > 0);
    CHECK(run(strict + under("sync") + how).metrics == first.metrics);
  }
}

TEST_CASE("with the usual factor nothing of an honest run is refused") {
  for (const auto* policy : {"sync", "async"}) {
    words usual{"--workers", "4", "--policy",    policy,
                "--epochs",  "8", "--eval-freq", "1000"};
    auto watched = run(usual + words{"--outliers", "refuse"});
    CHECK(refused_in(watched) == 0);
    CHECK(watched.sha256() == run(usual).sha256());
  }
}

TEST_CASE(
  "what is refused is used later, to the last sample of the last epoch") {
  for (const auto* policy : {"sync", "backup", "ssp", "async"}) {
    INFO(policy);
    auto found = run({"--workers", "4", "--batch-size", "16", "--epochs", "2",
                      "--eval-freq", "1000", "--policy", policy, "--outliers",
                      "refuse(factor=2)"});
    CHECK(refused_in(found) > 0);
    CHECK(found.summary["samples_applied"] == 2 * 1437);
  }
}

TEST_CASE("faults and refusals together break no promise") {
  for (int seed = 1; seed <= 8; ++seed) {
    INFO(seed);
    auto found = run(strict + under(seed % 2 == 0 ? "async" : "sync") +
                     words{"--faults", "random(" + std::to_string(seed) + ")"});
    CHECK(found.summary["status"] == "completed");
  }
}
