// A number of workers that varies: pauses below the fewest, and what follows
// from the number. A played cluster checks each decision.

#include "tests/support/histories.hpp"

#include <catch2/catch_test_macros.hpp>

#include <numeric>

using namespace troupe;
using namespace troupe::test;

namespace {

constexpr worker_id zero{0}, one{1}, two{2};

played_cluster varying_cluster(const policy_spec& spec,
                               const cores::varying_members& limits,
                               uint32_t there) {
  played_cluster out{spec, 60, 5};
  out.vary_members(limits);
  for (auto who : ranks(there)) {
    out.enlist(who);
    out.pull(who);
  }
  out.join(ranks(there));
  return out;
}

std::vector<uint64_t> batches(const played_cluster& cluster) {
  std::vector<uint64_t> out;
  for (auto who : cluster.everybody())
    out.push_back(cluster.current_lease(who).count);
  return out;
}

} // namespace

TEST_CASE("a run with a varying number of workers counts each sample once") {
  for (uint32_t workers : {2, 5})
    for (const auto& spec : all_policies(workers))
      for (uint64_t seed = 0; seed < 40; ++seed) {
        INFO(spec.name << " of " << workers << ", seed " << seed);
        std::mt19937_64 random{seed * 100 + workers};
        played_cluster cluster{spec, 1 + random() % 100, 1 + random() % 20};
        cores::varying_members limits;
        limits.fewest = 1 + static_cast<uint32_t>(random() % workers);
        limits.global_batch = random() % 2 * (workers + 2 + random() % 30);
        cluster.vary_members(limits);
        cluster.ahead = 1 + random() % 5;
        auto there = ranks(workers + 2);
        for (int event = 0; event < 300; ++event) {
          act(cluster, anyone(there, random), random);
          cluster.check_ledger();
        }
        for (auto who : there) {
          if (!cluster.contains(who))
            cluster.enlist(who);
          if (!cluster.joined(who))
            cluster.join({who});
        }
        auto steps = cluster.steps().size();
        for (int round = 0; round < 40; ++round)
          for (auto who : there)
            if (cluster.idle(who))
              cluster.pull(who);
            else if (cluster.computing(who))
              cluster.finish(who);
        cluster.check_ledger();
        CHECK(cluster.steps().size() > steps + 5);
      }
}

TEST_CASE("below the fewest workers nothing is decided, and leases are kept") {
  for (std::string name : {"sync", "backup", "ssp", "async"}) {
    INFO(name);
    auto cluster =
      varying_cluster(policies::read_spec(name, 3), {.fewest = 2}, 2);
    auto kept = cluster.current_lease(zero);
    cluster.leave(one);
    CHECK(cluster.step_scheduler().is_paused());
    CHECK(cluster.current_lease(zero) == kept);
    cluster.finish(zero);
    CHECK(cluster.steps().empty());
    CHECK(cluster.answers(zero) == 1);
    cluster.enlist(two);
    cluster.pull(two);
    cluster.join({two});
    CHECK(!cluster.step_scheduler().is_paused());
    CHECK(cluster.steps().size() == 1);
    CHECK(cluster.answers(zero) == 2);
    if (cluster.answers(two) == 0) // It takes part from the next step on.
      cluster.finish(zero);
    CHECK(cluster.answers(two) == 1);
    cluster.check_ledger();
  }
}

TEST_CASE("who dies in a pause keeps its gradient in the run") {
  for (std::string name : {"sync", "ssp", "async"}) {
    INFO(name);
    auto cluster =
      varying_cluster(policies::read_spec(name, 3), {.fewest = 2}, 2);
    cluster.leave(one);
    cluster.finish(zero);
    cluster.leave(zero);
    for (auto who : {zero, one}) {
      cluster.enlist(who);
      cluster.pull(who);
      cluster.join({who});
    }
    CHECK(cluster.steps().size() == 1);
    for (auto who : {zero, one})
      CHECK(cluster.answers(who) == 1);
    cluster.check_ledger();
  }
}

TEST_CASE("backup workers are those of the workers that are there") {
  auto cluster = varying_cluster(
    policies::read_spec("backup(backup-workers=1)", 9), {.fewest = 2}, 4);
  for (uint32_t rank : {0, 1})
    cluster.finish(worker_id{rank});
  CHECK(cluster.steps().empty());
  cluster.finish(two);
  CHECK(cluster.steps().size() == 1);
  cluster.leave(worker_id{3});
  cluster.leave(two);
  cluster.finish(one);
  CHECK(cluster.steps().size() == 2);
}

TEST_CASE("a global batch is divided among the workers that are there") {
  auto cluster =
    varying_cluster(sync_of(4), {.fewest = 1, .global_batch = 14}, 4);
  CHECK(batches(cluster) == std::vector<uint64_t>{4, 4, 3, 3});
  cluster.leave(worker_id{3});
  for (int leases = 0; leases < 3; ++leases)
    for (auto who : ranks(3))
      cluster.finish(who);
  CHECK(batches(cluster) == std::vector<uint64_t>{5, 5, 4});
}
