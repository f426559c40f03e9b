// What a run of a number of epochs applies, and when it ends.

#include "tests/support/histories.hpp"
#include "tests/support/paired_policy.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <catch2/generators/catch_generators_range.hpp>

#include <random>

using namespace troupe;
using namespace troupe::test;
using Catch::Generators::range;

TEST_CASE("the run stops with the update that completes the last epoch") {
  for (const auto& spec : all_policies(3)) {
    INFO(spec.name);
    std::mt19937_64 random{4};
    auto cluster = full_cluster(spec, 50, 7, epochs(2));
    while (!cluster.stopped()) {
      CHECK(cluster.step_scheduler().ledger().epochs_completed() < 2);
      if (auto who = anyone(ranks(3), random); cluster.computing(who))
        cluster.finish(who);
    }
    CHECK(*cluster.stopped() == "reached epochs = 2");
    CHECK(cluster.step_scheduler().ledger().epochs_completed() == 2);
    CHECK(cluster.applied() == 2 * 50);
    cluster.check_ledger();
  }
}

TEST_CASE("a run applies its epochs and nothing else, whatever happens") {
  auto workers = GENERATE(1u, 3u, 6u);
  for (const auto& spec : all_policies(workers)) {
    for (uint64_t seed = 0; seed < 40; ++seed) {
      INFO(policies::make_policy(spec)->state()
           << " of " << workers << ", seed " << seed);
      std::mt19937_64 random{seed * 100 + workers};
      auto samples = 1 + random() % 60;
      played_cluster cluster{spec, samples, 1 + random() % 20, epochs(3)};
      cluster.ahead = 1 + random() % 5;
      auto there = ranks(workers + 1);
      // At first anything may happen; later all workers work on.
      for (int event = 0; event < 10'000 && !cluster.stopped(); ++event) {
        auto who = anyone(there, random);
        if (event < 150 || !cluster.contains(who) || !cluster.joined(who) ||
            cluster.idle(who))
          act(cluster, who, random);
        else if (cluster.computing(who))
          cluster.finish(who);
        cluster.check_ledger();
      }
      REQUIRE(cluster.stopped());
      CHECK(*cluster.stopped() == "reached epochs = 3");
      CHECK(cluster.applied() == 3 * samples);
    }
  }
}

namespace {

/// Worker 0 has the last two leases of a run, and worker 1 rests.
played_cluster with_slow_worker() {
  auto cluster =
    full_cluster(policies::read_spec("async", 2), 60, 10, epochs(1));
  while (cluster.step_scheduler().awaited().empty())
    cluster.finish(worker_id{1});
  CHECK(cluster.applied() == 40);
  CHECK(cluster.step_scheduler().awaited() == std::vector{worker_id{0}});
  cluster.deal_again(worker_id{0});
  REQUIRE(cluster.computing(worker_id{1}));
  CHECK(cluster.current_lease(worker_id{1}).id ==
        cluster.current_lease(worker_id{0}).id);
  CHECK(cluster.step_scheduler().awaited().empty());
  return cluster;
}

} // namespace

TEST_CASE("the leases of a slow worker are computed by those that rest") {
  auto cluster = with_slow_worker();
  SECTION("and the first gradient counts") {
    cluster.finish(worker_id{1});
    CHECK(cluster.applied() == 50);
    CHECK(cluster.cancelled(worker_id{0}));
    cluster.finish(worker_id{1});
  }
  SECTION("also when it is the slow worker's") {
    cluster.finish(worker_id{0});
    CHECK(cluster.applied() == 50);
    CHECK(cluster.cancelled(worker_id{1}));
    cluster.finish(worker_id{1}); // Pulls, and goes on with the other one.
    CHECK(cluster.applied() == 50);
    cluster.finish(worker_id{1});
  }
  SECTION("also when it leaves") {
    cluster.leave(worker_id{0});
    cluster.finish(worker_id{1});
    cluster.finish(worker_id{1});
  }
  SECTION("unless they leave") {
    cluster.leave(worker_id{1});
    cluster.finish(worker_id{0});
    cluster.finish(worker_id{0});
  }
  CHECK(cluster.applied() == 60);
  CHECK(cluster.dropped() == 0);
  CHECK(cluster.stopped());
}

TEST_CASE("of two gradients of a lease the later one is dropped") {
  auto cluster = with_slow_worker();
  auto& scheduler = cluster.step_scheduler();
  auto both = cluster.current_lease(worker_id{0});
  cluster.finish(worker_id{1});
  // Worker 0 has not heard of it yet.
  CHECK(scheduler.holds(worker_id{0}, {{both.id}}, both.count));
  cluster.ignore_cancel(worker_id{0});
  cluster.finish(worker_id{0});
  CHECK(cluster.dropped() == 1);
  CHECK(cluster.applied() == 50);
  CHECK_FALSE(scheduler.holds(worker_id{0}, {{both.id}}, both.count));
  cluster.finish(worker_id{1});
  CHECK(cluster.stopped());
}

TEST_CASE(
  "a step does not wait for one without work, which takes what returns") {
  auto cluster = full_cluster(sync_of(3), 60, 10, epochs(1));
  for (int step = 1; step <= 2; ++step)
    for (auto who : ranks(3))
      if (step == 1 || who != worker_id{2})
        cluster.finish(who);
  // The last of six leases is worker 2's; the others have nothing to do.
  CHECK(cluster.steps().size() == 1);
  cluster.leave(worker_id{2});
  REQUIRE(cluster.steps().size() == 2);
  CHECK(samples_of(cluster.steps().back()) == 20);
  CHECK(cluster.computing(worker_id{0}));
  CHECK_FALSE(cluster.computing(worker_id{1}));
  cluster.finish(worker_id{0});
  CHECK(cluster.stopped());
  CHECK(cluster.applied() == 60);
}

TEST_CASE("one without work goes on with the samples of one who leaves") {
  auto cluster =
    full_cluster(policies::read_spec("async", 2), 40, 10, epochs(1));
  auto lost = cluster.current_lease(worker_id{1});
  cluster.finish(worker_id{0});
  cluster.finish(worker_id{0});
  CHECK_FALSE(cluster.computing(worker_id{0}));
  cluster.leave(worker_id{1});
  REQUIRE(cluster.computing(worker_id{0}));
  CHECK(cluster.current_lease(worker_id{0}).first == lost.first);
  cluster.finish(worker_id{0});
  cluster.finish(worker_id{0});
  CHECK(cluster.stopped());
  CHECK(cluster.applied() == 40);
}

TEST_CASE("a policy that needs more gradients than are left gets them") {
  // The policy needs two gradients for a step.
  auto goes_on = GENERATE(false, true);
  auto ahead = GENERATE(2u, 3u, 5u);
  auto leases = GENERATE(range(1u, 12u));
  INFO(goes_on << ", " << ahead << " of " << leases);
  auto samples = uint64_t{10} * leases;
  played_cluster cluster{
    {std::make_unique<paired_policy>(paired_spec(1), goes_on),
     cores::lease_ledger{samples, 10}, cores::stop_rule{epochs(1)}, version{0}},
    samples};
  cluster.ahead = ahead;
  for (auto who : ranks(2)) {
    cluster.enlist(who);
    cluster.pull(who);
  }
  cluster.join(ranks(2));
  for (int event = 0; event < 100 && !cluster.stopped(); ++event)
    if (worker_id who{static_cast<uint32_t>(event % 2)}; cluster.computing(who))
      cluster.finish(who);
  CHECK(cluster.stopped());
  CHECK(cluster.applied() >= samples);
  if (ahead == 2)
    CHECK(cluster.applied() == 20 * ((leases + 1) / 2));
}

TEST_CASE("a rank with data of its own goes on while others are not done") {
  cores::step_scheduler uut{
    policies::make_policy(policies::read_spec("async", 2)),
    cores::data_ledger{2, 10}, cores::stop_rule{epochs(1)}, version{0}};
  for (auto who : ranks(2)) {
    uut.enlist(who, life_number{1}, {10, 7});
    uut.pull(who);
  }
  for (const auto& released : uut.join(ranks(2)).release) {
    REQUIRE(released.leases.size() == 2);
    CHECK(released.leases[1].epoch == 1);
  }
}
