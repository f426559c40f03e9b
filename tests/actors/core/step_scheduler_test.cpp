#include "config/text/failure.hpp"
#include "tests/support/histories.hpp"
#include "tests/support/metrics.hpp"
#include "tests/support/paired_policy.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <catch2/generators/catch_generators_range.hpp>

#include <algorithm>
#include <random>

using namespace troupe;
using namespace troupe::test;
using troupe::testing::found;

namespace {

cores::stop_limits max_steps(uint64_t count) {
  cores::stop_limits out;
  out.max_steps = count;
  return out;
}

cores::stop_limits target_accuracy(double x) {
  cores::stop_limits out;
  out.target = {config::native_metrics::accuracy, true, x};
  return out;
}

/// Alone with its leases: 10 samples in batches of 5.
cores::step_scheduler small_scheduler(const cores::stop_limits& limits,
                                      version start) {
  return {policies::make_policy({}), cores::lease_ledger{10, 5},
          cores::stop_rule{limits}, start};
}

/// Everybody works on; each is answered again and again.
void check_all_answered(played_cluster& cluster) {
  std::vector<worker_id> waiting;
  for (auto who : cluster.everybody())
    if (!cluster.joined(who))
      waiting.push_back(who);
  if (!waiting.empty())
    cluster.join(waiting);
  auto members_now = cluster.everybody();
  std::vector<uint64_t> before;
  for (auto who : members_now)
    before.push_back(cluster.answers(who));
  for (int round = 0; round < 40; ++round) {
    for (auto who : members_now) {
      if (cluster.idle(who))
        cluster.pull(who);
      else if (cluster.computing(who))
        cluster.finish(who);
    }
  }
  for (size_t i = 0; i < members_now.size(); ++i)
    REQUIRE(cluster.answers(members_now[i]) >= before[i] + 5);
}

} // namespace

TEST_CASE("any history applies each sample once and answers everybody") {
  auto workers = GENERATE(1u, 2u, 5u);
  for (const auto& spec : all_policies(workers)) {
    for (uint64_t seed = 0; seed < 40; ++seed) {
      INFO(spec.name << " of " << workers << ", seed " << seed);
      std::mt19937_64 random{seed * 100 + workers};
      auto samples = 1 + random() % 100;
      auto batch = 1 + random() % 20;
      played_cluster cluster{spec, samples, batch};
      cluster.ahead = 1 + random() % 5;
      auto there = ranks(workers + 2);
      for (int event = 0; event < 300; ++event) {
        act(cluster, anyone(there, random), random);
        cluster.check_ledger();
      }
      check_all_answered(cluster);
      cluster.check_ledger();
      CHECK((cluster.everybody().empty() || !cluster.steps().empty()));
    }
  }
}

TEST_CASE("also across changes of the policy") {
  auto workers = GENERATE(1u, 2u, 5u);
  auto seed = GENERATE(range(0u, 60u));
  auto specs = all_policies(workers);
  std::mt19937_64 random{seed * 100 + workers};
  auto any = [&] {
    return specs[random() % specs.size()];
  };
  auto samples = 1 + random() % 100;
  played_cluster cluster{any(), samples, 1 + random() % 20};
  cluster.ahead = 1 + random() % 5;
  auto there = ranks(workers + 2);
  for (int event = 0; event < 300; ++event) {
    if (random() % 20 == 0)
      cluster.follow(any());
    act(cluster, anyone(there, random), random);
    cluster.check_ledger();
  }
  check_all_answered(cluster);
  cluster.check_ledger();
}

TEST_CASE("a change of the policy makes one step of what is held") {
  auto cluster = full_cluster(sync_of(3), 64, 4);
  cluster.finish(worker_id{0});
  cluster.finish(worker_id{1});
  REQUIRE(cluster.steps().empty());
  auto computes = cluster.current_lease(worker_id{2});
  cluster.follow(policies::read_spec("async", 3));
  REQUIRE(cluster.steps().size() == 1);
  CHECK(cluster.steps().front().leases.size() == 2);
  CHECK(cluster.computing(worker_id{0}));
  CHECK(cluster.current_lease(worker_id{2}) == computes);
  cluster.finish(worker_id{2}); // Of the version before: async takes it.
  REQUIRE(cluster.steps().size() == 2);
  CHECK(cluster.steps().back().leases == std::vector{computes});
}

TEST_CASE("a policy that takes no old gradients drops those under way") {
  auto cluster = full_cluster(policies::read_spec("async", 3), 64, 4);
  cluster.finish(worker_id{0});
  cluster.follow(sync_of(3));
  cluster.finish(worker_id{1});
  CHECK(cluster.dropped() == 1);
  cluster.check_ledger();
}

TEST_CASE("a change may reach the end of the run") {
  auto cluster = full_cluster(sync_of(2), 64, 4, max_steps(1));
  cluster.finish(worker_id{0});
  cluster.follow(policies::read_spec("async", 2));
  CHECK(cluster.stopped());
}

namespace {

/// Lets its members begin when it likes.
class hesitant : public policies::policy {
public:
  void reset(version v) override { current_ = v; }

  version current() const override { return current_; }

  policies::decision on_join(std::span<const worker_id>) override { return {}; }

  policies::decision on_leave(worker_id) override { return {}; }

  policies::decision on_arrival(const policies::arrival&) override {
    return {};
  }

  policies::decision on_pull(worker_id) override { return {}; }

  std::vector<worker_id> waiting_for() const override { return {}; }

  std::string state() const override { return "hesitant"; }

private:
  version current_;
};

} // namespace

TEST_CASE("a policy that lets nobody begin cannot take over") {
  auto scheduler = small_scheduler({}, version{0});
  worker_id who{0};
  scheduler.enlist(who, life_number{1});
  scheduler.pull(who);
  scheduler.join({&who, 1});
  CHECK_THROWS_AS(scheduler.follow(std::make_unique<hesitant>()), run_error);
  CHECK(scheduler.policy().state().starts_with("sync"));
}

TEST_CASE("when all have left, every lease has returned or is held") {
  for (const auto& spec : all_policies(4)) {
    INFO(spec.name);
    std::mt19937_64 random{7};
    auto cluster = full_cluster(spec, 64, 4);
    for (int i = 0; i < 100; ++i)
      if (auto who = anyone(ranks(4), random); cluster.computing(who))
        cluster.finish(who);
    for (auto who : ranks(4))
      cluster.leave(who);
    cluster.check_ledger();
    CHECK(cluster.step_scheduler().members() == 0);
    CHECK(cluster.step_scheduler().ledger().outstanding() == 0);
  }
}

TEST_CASE("sync: the k-th step covers the k-th N batches, whoever is quick") {
  auto seed = GENERATE(range(0u, 20u));
  std::mt19937_64 random{seed};
  constexpr uint64_t batch = 8;
  constexpr uint64_t samples = 5 * 4 * batch;
  auto cluster = full_cluster(sync_of(4), samples, batch);
  while (cluster.steps().size() < 12) {
    auto who = anyone(ranks(4), random);
    if (cluster.computing(who))
      cluster.finish(who);
  }
  for (uint64_t k = 0; k < 12; ++k) {
    std::vector<uint64_t> firsts;
    for (const auto& from : cluster.steps()[k].leases) {
      CHECK(from.count == batch);
      firsts.push_back(from.epoch * samples + from.first);
    }
    std::ranges::sort(firsts);
    for (uint64_t i = 0; i < 4; ++i)
      CHECK(firsts[i] == (k * 4 + i) * batch);
  }
}

TEST_CASE("the run stops exactly at max-steps") {
  for (const auto& spec : all_policies(3)) {
    INFO(spec.name);
    std::mt19937_64 random{3};
    auto cluster = full_cluster(spec, 50, 5, max_steps(17));
    while (!cluster.stopped())
      if (auto who = anyone(ranks(3), random); cluster.computing(who))
        cluster.finish(who);
    CHECK(*cluster.stopped() == "reached max-steps = 17");
    CHECK(cluster.steps().back().makes == version{17});
    CHECK(cluster.step_scheduler().current() == version{17});
  }
}

TEST_CASE("a run that is resumed at its end has reached it") {
  CHECK(small_scheduler(max_steps(9), version{9}).reached() ==
        "reached max-steps = 9");
  CHECK_FALSE(small_scheduler(max_steps(9), version{8}).reached());
}

TEST_CASE("an accuracy that is reached ends the run") {
  auto step_scheduler = small_scheduler(target_accuracy(0.9), version{0});
  CHECK_FALSE(step_scheduler.scored(found(0.89)));
  CHECK(step_scheduler.scored(found(0.9)) == "reached accuracy>=0.9");
}

TEST_CASE("a worker is expelled after 20 bad gradients in a row") {
  for (const auto& spec : all_policies(2)) {
    INFO(spec.name);
    auto cluster = full_cluster(spec, 100, 5);
    worker_id who{1};
    for (int i = 0; i < 19; ++i)
      REQUIRE_FALSE(cluster.push_bad(who));
    cluster.finish(who); // One that is sound: counting starts anew.
    cluster.finish(worker_id{0});
    for (int i = 0; i < 19; ++i)
      REQUIRE_FALSE(cluster.push_bad(who));
    CHECK(cluster.push_bad(who));
    cluster.check_ledger();
  }
}

TEST_CASE("the lease of a late gradient is the next that another gets") {
  auto cluster = full_cluster(policies::read_spec("backup", 3), 300, 10);
  auto late = cluster.current_lease(worker_id{2});
  cluster.finish(worker_id{0});
  cluster.finish(worker_id{1});
  REQUIRE(cluster.steps().size() == 1);
  cluster.finish(worker_id{2});
  CHECK(cluster.dropped() == 1);
  CHECK(cluster.answers(worker_id{2}) == 2); // The late one goes on at once.
  // The next that is released fetches it, and computes it one lease later.
  for (uint64_t step = 2; step <= 3; ++step) {
    cluster.finish(worker_id{0});
    cluster.finish(worker_id{1});
    REQUIRE(cluster.steps().size() == step);
  }
  auto again = cluster.current_lease(worker_id{0});
  CHECK(again.epoch == late.epoch);
  CHECK(again.first == late.first);
  CHECK(again.id != late.id);
}

TEST_CASE("a cancelled worker gives its lease back and goes on") {
  auto cluster =
    full_cluster(policies::read_spec("backup(late=cancel)", 3), 300, 10);
  cluster.finish(worker_id{0});
  cluster.finish(worker_id{1});
  REQUIRE(cluster.cancelled(worker_id{2}));
  cluster.finish(worker_id{2});
  CHECK(cluster.computing(worker_id{2}));
  CHECK(cluster.dropped() == 0);
  cluster.check_ledger();
}

TEST_CASE("the held gradient of one who leaves counts once") {
  auto cluster = full_cluster(sync_of(3), 90, 10);
  auto held = cluster.current_lease(worker_id{0});
  cluster.finish(worker_id{0});
  cluster.leave(worker_id{0});
  cluster.check_ledger();
  SECTION("when the others are done") {
    cluster.finish(worker_id{1});
    cluster.finish(worker_id{2});
  }
  SECTION("when the others leave, too") {
    cluster.leave(worker_id{1});
    cluster.leave(worker_id{2});
  }
  SECTION("when it comes back meanwhile") {
    cluster.enlist(worker_id{0});
    cluster.pull(worker_id{0});
    cluster.join({worker_id{0}});
    cluster.finish(worker_id{1});
    cluster.finish(worker_id{2});
    CHECK(cluster.computing(worker_id{0}));
  }
  REQUIRE(cluster.steps().size() == 1);
  CHECK(std::ranges::count(cluster.steps()[0].leases, held) == 1);
  CHECK(samples_of(cluster.steps()[0]) % 10 == 0);
  cluster.check_ledger();
}

TEST_CASE("one who is enlisted and leaves before it joins leaves no trace") {
  auto cluster = full_cluster(sync_of(2), 40, 10);
  cluster.enlist(worker_id{5});
  cluster.pull(worker_id{5});
  CHECK(cluster.step_scheduler().members() == 2);
  cluster.leave(worker_id{5});
  cluster.finish(worker_id{0});
  cluster.finish(worker_id{1});
  CHECK(cluster.steps().size() == 1);
}

TEST_CASE("a policy weighs the gradients of a step, and drops one with 0") {
  for (double lower : {0.25, 0.0}) {
    INFO("weight of the first " << lower);
    cores::step_scheduler uut{
      std::make_unique<paired_policy>(paired_spec(lower)),
      cores::lease_ledger{40, 10}, cores::stop_rule{{}}, version{0}};
    std::vector<lease> work;
    for (auto who : ranks(2)) {
      uut.enlist(who, life_number{1});
      uut.pull(who);
    }
    for (const auto& released : uut.join(ranks(2)).release)
      work.push_back(released.leases.front());
    auto push = [&](uint32_t who) {
      push_id id{worker_id{who}, life_number{1}, sequence{1}};
      REQUIRE(uut.admit(id) == cores::freshness::fresh);
      return uut.push({id, version{0}, {work.at(who).id}});
    };
    CHECK(push(1).updates.empty());
    auto decided = push(0);
    REQUIRE(decided.updates.size() == 1);
    const auto& step = decided.updates.front();
    CHECK(step.rate_factor == 0.5);
    CHECK(step.gradients.back().id.worker == worker_id{1});
    CHECK(step.gradients.back().weight == 1);
    if (lower > 0) {
      REQUIRE(step.gradients.size() == 2);
      CHECK(step.gradients.front().weight == lower);
      CHECK(decided.drop.empty());
      continue;
    }
    CHECK(step.gradients.size() == 1);
    REQUIRE(decided.drop.size() == 1);
    CHECK(decided.drop.front().id.worker == worker_id{0});
    // Its samples are the next that somebody gets.
    auto again = uut.ledger().left_out();
    CHECK(again == 0);
    CHECK(uut.ledger().find(work.at(0).id) == nullptr);
    CHECK(uut.admit(decided.drop.front().id) ==
          cores::freshness::duplicate_done);
  }
}

TEST_CASE("a worker goes on while the policy holds its gradient") {
  cores::step_scheduler uut{
    std::make_unique<paired_policy>(paired_spec(1), true),
    cores::lease_ledger{60, 10}, cores::stop_rule{{}}, version{0}};
  worker_id who{0};
  uut.enlist(who, life_number{1});
  uut.pull(who);
  auto released = uut.join({&who, 1}).release;
  std::vector<lease> work;
  uint64_t steps = 0;
  for (uint64_t number = 1; number <= 6; ++number) {
    REQUIRE(released.size() == 1);
    work.insert(work.end(), released.front().leases.begin(),
                released.front().leases.end());
    push_id id{who, life_number{1}, sequence{number}};
    REQUIRE(uut.admit(id) == cores::freshness::fresh);
    auto decided = uut.push({id, version{steps}, {work.at(number - 1).id}});
    CHECK(decided.updates.size() == (number % 2 == 0 ? 1u : 0u));
    steps += decided.updates.size();
    released = decided.release;
  }
  CHECK(uut.current() == version{3});
  CHECK(uut.ledger().epochs_completed() == 1);
}
