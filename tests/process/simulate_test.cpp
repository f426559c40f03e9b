// The whole cluster in one process, with all of its threads, for a few steps:
// what the sanitizers look at.

#include "tests/process/process_fixture.hpp"

#include <catch2/catch_test_macros.hpp>

using namespace troupe::testing;

namespace {

constexpr std::chrono::seconds whole_run{100};

void run_briefly(const flags& more) {
  process_fixture on;
  flags all{"--workers",   "3", "--max-steps",       "20",
            "--eval-freq", "5", "--checkpoint-freq", "4"};
  all.insert(all.end(), more.begin(), more.end());
  auto cluster = on.simulate(all);
  check_end(cluster, 0, whole_run);
  CHECK(on.summary()["status"] == "completed");
  CHECK(on.summary()["steps"] == 20);
  CHECK(on.summary()["final_accuracy"].is_number());
  CHECK(checkpoints_of(on.run()).size() == 3);
}

} // namespace

TEST_CASE("a cluster under sync runs and ends") {
  run_briefly({"--policy", "sync"});
}

TEST_CASE("a cluster that drops late gradients runs and ends") {
  run_briefly({"--policy", "backup"});
}

TEST_CASE("a cluster that cancels late gradients runs and ends") {
  run_briefly({"--policy", "backup", "--late", "cancel"});
}

TEST_CASE("a cluster under ssp runs and ends") {
  run_briefly({"--policy", "ssp", "--staleness", "1"});
}

TEST_CASE("a cluster under async runs and ends") {
  run_briefly({"--policy", "async", "--optimizer", "adam", "--lr", "0.001"});
}
