// The real parameter server behind real paths over a double of NCCL, one thing
// at a time: members come and go between any two frames, and each gradient
// counts once, with the samples that it was made of.
// TROUPE_CLUSTER_RUNS says how many histories, TROUPE_CLUSTER_FIRST which is
// the first.

#include "tests/support/wished.hpp"
#include "tests/transport/collective_history.hpp"

#include <catch2/catch_test_macros.hpp>

using namespace troupe;
using namespace troupe::test;

namespace {

void check_clean() {
  CHECK(fake::violations() == std::vector<std::string>{});
  CHECK(fake::alive() == fake::census{});
}

} // namespace

TEST_CASE("a cluster over NCCL makes the steps of its gradients") {
  {
    history all{7, 3};
    CHECK(all.run(20, UINT64_MAX, fault::none, {}) == "");
    CHECK(all.seen().most_at_once == 3);
    CHECK(fake::sums() >= 10);
  }
  check_clean();
}

TEST_CASE(
  "whoever comes and goes between two frames, each sample counts once") {
  auto runs = testing::wished("TROUPE_CLUSTER_RUNS", 150);
  auto first = testing::wished("TROUPE_CLUSTER_FIRST", 1);
  size_t sums = 0;
  for (auto run = first; run < first + runs; ++run) {
    constexpr fault faults[] = {fault::killed, fault::silent, fault::frozen,
                                fault::path, fault::newcomer};
    auto what = faults[run % std::size(faults)];
    std::mt19937_64 random{run};
    auto at = 100 + random() % 700;
    auto workers = 2 + static_cast<uint32_t>(random() % 3);
    worker_id victim{static_cast<uint32_t>(random() % workers)};
    INFO("run " << run << ": fault " << static_cast<int>(what) << " at event "
                << at);
    {
      history all{run, workers};
      REQUIRE(all.run(14, at, what, victim) == "");
    }
    sums += fake::sums();
    check_clean();
  }
  // Else nothing was at stake.
  CHECK(sums > 2 * runs);
}

TEST_CASE("one whose gradients are never finite is expelled, and nobody else") {
  for (uint64_t seed = 1; seed <= 5; ++seed) {
    INFO("seed " << seed);
    {
      history all{seed, 3};
      all.spoil(worker_id{1});
      REQUIRE(all.run(40, UINT64_MAX, fault::none, {}) == "");
      REQUIRE(all.expelled().size() == 1);
      CHECK(all.expelled()[0].worker == worker_id{1});
      CHECK(
        (all.seen().refusals == std::map<worker_id, int>{{worker_id{1}, 20}}));
    }
    check_clean();
  }
}
