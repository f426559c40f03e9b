#include "tests/policies/conformance.hpp"
#include "tests/support/paired_policy.hpp"
#include "tests/support/played_cast.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <catch2/generators/catch_generators_range.hpp>

#include <algorithm>
#include <random>

using namespace troupe;
using namespace troupe::test;

namespace {

using policies::policy_spec;

/// Each with some of its parameters.
std::vector<policy_spec> all_policies(uint32_t workers) {
  std::vector<policy_spec> out;
  for (const auto& name : config::policy_names())
    for (uint64_t seed : {1, 2, 3}) {
      chance random{seed};
      out.push_back(any_spec(name, workers, random));
    }
  return out;
}

cores::stop_limits max_steps(uint64_t count) {
  cores::stop_limits out;
  out.max_steps = count;
  return out;
}

cores::stop_limits epochs(uint64_t count) {
  cores::stop_limits out;
  out.epochs = count;
  return out;
}

cores::stop_limits target_accuracy(double x) {
  cores::stop_limits out;
  out.target_accuracy = x;
  return out;
}

policy_spec sync_of(uint32_t workers) {
  return policies::read_spec("sync", workers);
}

/// Alone with its leases: 10 samples in batches of 5.
cores::conductor small_conductor(const cores::stop_limits& limits,
                                 version start) {
  return {policies::make_policy({}), cores::lease_ledger{10, 5},
          cores::stop_rule{limits}, start};
}

std::vector<worker_id> ranks(uint32_t count) {
  std::vector<worker_id> out;
  for (uint32_t i = 0; i < count; ++i)
    out.push_back(worker_id{i});
  return out;
}

/// All workers in the cast, computing.
played_cast full_cast(const policy_spec& spec, uint64_t samples, uint64_t batch,
                      const cores::stop_limits& limits = {}) {
  played_cast cast{spec, samples, batch, limits};
  for (auto who : ranks(spec.workers)) {
    cast.enlist(who);
    cast.pull(who);
  }
  cast.join(ranks(spec.workers));
  return cast;
}

worker_id anyone(const std::vector<worker_id>& from, std::mt19937_64& random) {
  return from[random() % from.size()];
}

void come_or_go(played_cast& cast, worker_id who, std::mt19937_64& random) {
  if (cast.contains(who))
    return cast.leave(who);
  cast.enlist(who);
  if (random() % 2)
    cast.pull(who);
}

/// One thing that may happen next to this worker.
void act(played_cast& cast, worker_id who, std::mt19937_64& random) {
  auto chance = random() % 100;
  if (chance < 4 || !cast.contains(who))
    come_or_go(cast, who, random);
  else if (!cast.joined(who) && chance < 50)
    cast.join({who});
  else if (cast.idle(who))
    cast.pull(who);
  else if (cast.computing(who) && chance < 10) {
    if (cast.push_bad(who))
      cast.leave(who);
  } else if (cast.computing(who) && chance < 85)
    cast.finish(who);
  else if (chance < 93)
    cast.push_again(who);
  else
    cast.push_stale(who);
}

/// Everybody works on; each is answered again and again.
void check_all_answered(played_cast& cast) {
  std::vector<worker_id> waiting;
  for (auto who : cast.everybody())
    if (!cast.joined(who))
      waiting.push_back(who);
  if (!waiting.empty())
    cast.join(waiting);
  auto cast_now = cast.everybody();
  std::vector<uint64_t> before;
  for (auto who : cast_now)
    before.push_back(cast.answers(who));
  for (int round = 0; round < 40; ++round) {
    for (auto who : cast_now) {
      if (cast.idle(who))
        cast.pull(who);
      else if (cast.computing(who))
        cast.finish(who);
    }
  }
  for (size_t i = 0; i < cast_now.size(); ++i)
    REQUIRE(cast.answers(cast_now[i]) >= before[i] + 5);
}

uint64_t samples_of(const played_cast::step& what) {
  uint64_t out = 0;
  for (const auto& from : what.leases)
    out += from.count;
  return out;
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
      played_cast cast{spec, samples, batch};
      auto stage = ranks(workers + 2);
      for (int event = 0; event < 300; ++event) {
        act(cast, anyone(stage, random), random);
        cast.check_ledger();
      }
      check_all_answered(cast);
      cast.check_ledger();
      CHECK((cast.everybody().empty() || !cast.steps().empty()));
    }
  }
}

TEST_CASE("when all have left, every lease has returned or is held") {
  for (const auto& spec : all_policies(4)) {
    INFO(spec.name);
    std::mt19937_64 random{7};
    auto cast = full_cast(spec, 64, 4);
    for (int i = 0; i < 100; ++i)
      if (auto who = anyone(ranks(4), random); cast.computing(who))
        cast.finish(who);
    for (auto who : ranks(4))
      cast.leave(who);
    cast.check_ledger();
    CHECK(cast.conductor().members() == 0);
    CHECK(cast.conductor().ledger().outstanding() == 0);
  }
}

TEST_CASE("sync: the k-th step covers the k-th N batches, whoever is quick") {
  auto seed = GENERATE(range(0u, 20u));
  std::mt19937_64 random{seed};
  constexpr uint64_t batch = 8;
  constexpr uint64_t samples = 5 * 4 * batch;
  auto cast = full_cast(sync_of(4), samples, batch);
  while (cast.steps().size() < 12) {
    auto who = anyone(ranks(4), random);
    if (cast.computing(who))
      cast.finish(who);
  }
  for (uint64_t k = 0; k < 12; ++k) {
    std::vector<uint64_t> firsts;
    for (const auto& from : cast.steps()[k].leases) {
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
    auto cast = full_cast(spec, 50, 5, max_steps(17));
    while (!cast.stopped())
      if (auto who = anyone(ranks(3), random); cast.computing(who))
        cast.finish(who);
    CHECK(*cast.stopped() == "reached max-steps = 17");
    CHECK(cast.steps().back().makes == version{17});
    CHECK(cast.conductor().current() == version{17});
  }
}

TEST_CASE("the run stops with the update that completes the last epoch") {
  for (const auto& spec : all_policies(3)) {
    INFO(spec.name);
    std::mt19937_64 random{4};
    auto cast = full_cast(spec, 50, 7, epochs(2));
    while (!cast.stopped()) {
      CHECK(cast.conductor().ledger().epochs_completed() < 2);
      if (auto who = anyone(ranks(3), random); cast.computing(who))
        cast.finish(who);
    }
    CHECK(*cast.stopped() == "reached epochs = 2");
    // More when the last lease of epoch 1 came after all of epoch 2.
    CHECK(cast.conductor().ledger().epochs_completed() >= 2);
    cast.check_ledger();
  }
}

TEST_CASE("a run that is resumed at its end has reached it") {
  CHECK(small_conductor(max_steps(9), version{9}).reached() ==
        "reached max-steps = 9");
  CHECK_FALSE(small_conductor(max_steps(9), version{8}).reached());
}

TEST_CASE("an accuracy that is reached ends the run") {
  auto conductor = small_conductor(target_accuracy(0.9), version{0});
  CHECK_FALSE(conductor.scored(0.89));
  CHECK(conductor.scored(0.9) == "reached target-accuracy = 0.9");
}

TEST_CASE("a worker is expelled after 20 bad gradients in a row") {
  for (const auto& spec : all_policies(2)) {
    INFO(spec.name);
    auto cast = full_cast(spec, 100, 5);
    worker_id who{1};
    for (int i = 0; i < 19; ++i)
      REQUIRE_FALSE(cast.push_bad(who));
    cast.finish(who); // One that is sound: counting starts anew.
    cast.finish(worker_id{0});
    for (int i = 0; i < 19; ++i)
      REQUIRE_FALSE(cast.push_bad(who));
    CHECK(cast.push_bad(who));
    cast.check_ledger();
  }
}

TEST_CASE("the lease of a late gradient is the next that another gets") {
  auto cast = full_cast(policies::read_spec("backup", 3), 300, 10);
  auto late = cast.current_lease(worker_id{2});
  cast.finish(worker_id{0});
  cast.finish(worker_id{1});
  REQUIRE(cast.steps().size() == 1);
  cast.finish(worker_id{2});
  CHECK(cast.dropped() == 1);
  CHECK(cast.answers(worker_id{2}) == 2); // The late one goes on at once.
  // The next that is released fetches it, and computes it one lease later.
  for (uint64_t step = 2; step <= 3; ++step) {
    cast.finish(worker_id{0});
    cast.finish(worker_id{1});
    REQUIRE(cast.steps().size() == step);
  }
  auto again = cast.current_lease(worker_id{0});
  CHECK(again.epoch == late.epoch);
  CHECK(again.first == late.first);
  CHECK(again.id != late.id);
}

TEST_CASE("a cancelled worker gives its lease back and goes on") {
  auto cast = full_cast(policies::read_spec("backup(late=cancel)", 3), 300, 10);
  cast.finish(worker_id{0});
  cast.finish(worker_id{1});
  REQUIRE(cast.cancelled(worker_id{2}));
  cast.finish(worker_id{2});
  CHECK(cast.computing(worker_id{2}));
  CHECK(cast.dropped() == 0);
  cast.check_ledger();
}

TEST_CASE("the held gradient of one who leaves counts once") {
  auto cast = full_cast(sync_of(3), 90, 10);
  auto held = cast.current_lease(worker_id{0});
  cast.finish(worker_id{0});
  cast.leave(worker_id{0});
  cast.check_ledger();
  SECTION("when the others are done") {
    cast.finish(worker_id{1});
    cast.finish(worker_id{2});
  }
  SECTION("when the others leave, too") {
    cast.leave(worker_id{1});
    cast.leave(worker_id{2});
  }
  SECTION("when it comes back meanwhile") {
    cast.enlist(worker_id{0});
    cast.pull(worker_id{0});
    cast.join({worker_id{0}});
    cast.finish(worker_id{1});
    cast.finish(worker_id{2});
    CHECK(cast.computing(worker_id{0}));
  }
  REQUIRE(cast.steps().size() == 1);
  CHECK(std::ranges::count(cast.steps()[0].leases, held) == 1);
  CHECK(samples_of(cast.steps()[0]) % 10 == 0);
  cast.check_ledger();
}

TEST_CASE("one who is enlisted and leaves before it joins leaves no trace") {
  auto cast = full_cast(sync_of(2), 40, 10);
  cast.enlist(worker_id{5});
  cast.pull(worker_id{5});
  CHECK(cast.conductor().members() == 2);
  cast.leave(worker_id{5});
  cast.finish(worker_id{0});
  cast.finish(worker_id{1});
  CHECK(cast.steps().size() == 1);
}

TEST_CASE("a policy weighs the gradients of a step, and drops one with 0") {
  for (double lower : {0.25, 0.0}) {
    INFO("weight of the first " << lower);
    cores::conductor uut{std::make_unique<paired_policy>(paired_spec(lower)),
                         cores::lease_ledger{40, 10}, cores::stop_rule{{}},
                         version{0}};
    std::vector<lease> work;
    for (auto who : ranks(2)) {
      uut.enlist(who, incarnation{1});
      uut.pull(who, lease_id{0});
    }
    for (const auto& released : uut.join(ranks(2)).release)
      work.push_back(released.leases.front());
    auto push = [&](uint32_t who) {
      push_id id{worker_id{who}, incarnation{1}, sequence{1}};
      REQUIRE(uut.admit(id) == cores::freshness::fresh);
      return uut.push({id, version{0}, work.at(who).id});
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
  cores::conductor uut{std::make_unique<paired_policy>(paired_spec(1), true),
                       cores::lease_ledger{60, 10}, cores::stop_rule{{}},
                       version{0}};
  worker_id who{0};
  uut.enlist(who, incarnation{1});
  uut.pull(who, lease_id{0});
  auto released = uut.join({&who, 1}).release;
  std::vector<lease> work;
  uint64_t steps = 0;
  for (uint64_t number = 1; number <= 6; ++number) {
    REQUIRE(released.size() == 1);
    work.insert(work.end(), released.front().leases.begin(),
                released.front().leases.end());
    push_id id{who, incarnation{1}, sequence{number}};
    REQUIRE(uut.admit(id) == cores::freshness::fresh);
    auto decided = uut.push({id, version{steps}, work.at(number - 1).id});
    CHECK(decided.updates.size() == (number % 2 == 0 ? 1u : 0u));
    steps += decided.updates.size();
    released = decided.release;
  }
  CHECK(uut.current() == version{3});
  CHECK(uut.ledger().epochs_completed() == 1);
}
