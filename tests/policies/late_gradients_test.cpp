// The policies that count gradients of older versions, `buffered` and `quorum`,
// and rules about how these count.

#include "config/text/failure.hpp"
#include "config/text/value.hpp"
#include "tests/policies/conformance.hpp"
#include "tests/support/cluster_simulation.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_floating_point.hpp>

using namespace troupe;
using namespace troupe::test;
using Catch::Matchers::WithinAbs;
using Catch::Matchers::WithinRel;
using policies::policy_spec;
using policies::read_spec;

namespace {

const worker_id w0{0}, w1{1}, w2{2}, w3{3};

policy_spec with_rule(policy_spec spec, std::string_view rule) {
  spec.staleness = config::parse_staleness_rule(rule);
  return spec;
}

/// Both get the same random events and must decide alike.
void decide_alike(const policy_spec& one, const policy_spec& other) {
  for (uint64_t seed = 0; seed < 100; ++seed) {
    INFO("seed " << seed);
    audited_cluster first{one}, second{other};
    chance random{seed};
    for (int i = 0; i < 200; ++i) {
      auto dice = random.below(100);
      auto busy = first.computing();
      policies::decision a, b;
      if (busy.empty() || dice < 8) {
        std::vector<worker_id> who;
        for (uint32_t rank = 0; rank < one.workers; ++rank)
          if (!first.contains(worker_id{rank}) && random.one_in(2))
            who.push_back(worker_id{rank});
        if (who.empty())
          continue;
        a = first.join(who);
        b = second.join(who);
      } else if (dice < 14) {
        worker_id who{random.below(one.workers)};
        a = first.leave(who);
        b = second.leave(who);
      } else if (dice < 20) {
        auto who = random.any_of(busy);
        a = first.pull(who);
        b = second.pull(who);
      } else {
        auto who = random.any_of(busy);
        a = first.push(who);
        b = second.push(who);
      }
      b.window.reset();
      REQUIRE(a == b);
    }
  }
}

} // namespace

// -- buffered -----------------------------------------------------------------

TEST_CASE("buffered makes a step of K gradients, and nobody waits") {
  audited_cluster it{read_spec("buffered(size=3)", 2)};
  CHECK(text(it.join({w0, w1})) == "release 0 1");
  CHECK(text(it.push(w1)) == "release 1");
  CHECK(text(it.push(w0)) == "release 0");
  CHECK(text(it.push(w1)) == "update 0 1 1, release 1");
  CHECK(it.policy().state() == "buffered k=3 v=1 members=0,1 gradients=");
}

TEST_CASE("buffered keeps the gradient of a member that left") {
  audited_cluster it{read_spec("buffered", 2)};
  it.join({w0, w1});
  it.push(w0);
  CHECK(text(it.leave(w0)) == "");
  CHECK(text(it.push(w1)) == "update 0 1, release 1");
}

TEST_CASE("buffered closes its last step with fewer gradients") {
  audited_cluster it{read_spec("buffered(size=3)", 2)};
  it.join({w0, w1});
  it.push(w0);
  CHECK(text(it.leave(w0)) == "");
  CHECK(text(it.leave(w1)) == "update 0");
}

TEST_CASE("buffered: mean staleness is (N-1)/K for any compute time") {
  for (auto& takes : {exponential_time(0.5, 0.5), constant_time(1)})
    for (uint32_t size : {2, 4, 8}) {
      auto found = simulate_cluster(
        read_spec("buffered(size=" + std::to_string(size) + ")", 16), takes,
        4'000);
      CHECK_THAT(found.mean_staleness, WithinAbs(15.0 / size, 0.6));
    }
}

// -- quorum -------------------------------------------------------------------

TEST_CASE("quorum begins a window with the K-th gradient, and closes the step "
          "when it is over") {
  audited_cluster it{read_spec("quorum(quorum=2,window=0.5)", 4)};
  CHECK(text(it.join({w0, w1, w2, w3})) == "release 0 1 2 3");
  CHECK(text(it.push(w2)) == "");
  CHECK(text(it.push(w0)) == "window 0.5");
  CHECK(text(it.push(w3)) == "");
  REQUIRE(it.has_window());
  CHECK(text(it.end_window()) == "update 0 2 3, release 0 2 3");
  CHECK(!it.has_window());
}

TEST_CASE("quorum closes at once when all gradients are in") {
  audited_cluster it{read_spec("quorum(quorum=2,window=9)", 3)};
  it.join({w0, w1, w2});
  it.push(w0);
  CHECK(text(it.push(w1)) == "window 9.");
  CHECK(text(it.push(w2)) == "update 0 1 2, release 0 1 2");
  CHECK(!it.has_window());
}

TEST_CASE("quorum counts a late gradient in the next step") {
  audited_cluster it{read_spec("quorum(quorum=2,window=0)", 3)};
  it.join({w0, w1, w2});
  it.push(w0);
  CHECK(text(it.push(w1)) == "update 0 1, release 0 1");
  CHECK(text(it.push(w2)) == "");
  CHECK(text(it.push(w1)) == "update 1 2, release 1 2");
}

TEST_CASE("quorum: a window that was overtaken by its step does nothing") {
  auto policy = policies::make_policy(read_spec("quorum(quorum=1)", 2));
  policy->reset(version{4});
  std::vector<worker_id> both{w0, w1};
  policy->on_join(both);
  auto push = [](worker_id who) {
    return policies::arrival{{who, life_number{1}, sequence{1}}, version{4}};
  };
  CHECK(policy->on_arrival(push(w0)).window == 1);
  CHECK(policy->on_arrival(push(w1)).updates.size() == 1);
  CHECK(policy->on_window_over(version{4}) == policies::decision{});
  CHECK(policy->on_window_over(version{5}) == policies::decision{});
}

TEST_CASE("quorum of 0 is more than half, also when the number of workers "
          "varies") {
  auto policy = policies::make_policy(read_spec("quorum(window=0)", 2));
  policy->reset(version{0});
  policy->resize(5);
  std::vector<worker_id> all{w0, w1, w2, w3, worker_id{4}};
  policy->on_join(all);
  auto push = [](worker_id who) {
    return policies::arrival{{who, life_number{1}, sequence{1}}, version{0}};
  };
  CHECK(policy->on_arrival(push(w0)).updates.empty());
  CHECK(policy->on_arrival(push(w1)).updates.empty());
  CHECK(policy->on_arrival(push(w2)).updates.size() == 1);
}

TEST_CASE("a quorum of all decides as sync") {
  decide_alike(read_spec("sync", 5), read_spec("quorum(quorum=5)", 5));
}

TEST_CASE("a quorum above the workers is refused") {
  CHECK_THROWS_AS(policies::make_policy(read_spec("quorum(quorum=4)", 3)),
                  usage_error);
}

// -- rules --------------------------------------------------------------------

TEST_CASE("polynomial: a stale gradient makes a smaller step") {
  audited_cluster it{with_rule(read_spec("async", 2), "polynomial(power=0.5)")};
  it.join({w0, w1});
  CHECK(it.push(w0).updates.at(0).rate_factor == 1);
  it.push(w0);
  it.push(w0);
  // Three versions old.
  CHECK_THAT(it.push(w1).updates.at(0).rate_factor, WithinRel(0.5, 1e-15));
}

TEST_CASE("polynomial: gradients of a step are weighed by their samples and "
          "their staleness") {
  auto policy = policies::make_policy(
    with_rule(read_spec("buffered(size=2)", 2), "polynomial(power=1)"));
  policy->reset(version{3});
  std::vector<worker_id> both{w0, w1};
  policy->on_join(both);
  policy->on_arrival({{w0, life_number{1}, sequence{1}}, version{3}, 30});
  auto step =
    policy->on_arrival({{w1, life_number{1}, sequence{1}}, version{0}, 10})
      .updates.at(0);
  CHECK(step.gradients.at(0).weight == 1);
  CHECK(step.gradients.at(1).weight == 0.25);
  // (30 + 10 / 4) / 40
  CHECK_THAT(step.rate_factor, WithinRel(0.8125, 1e-15));
}

TEST_CASE("delayed-nesterov uses the momentum in each N-th step") {
  auto policy =
    policies::make_policy(with_rule(read_spec("async", 3), "delayed-nesterov"));
  policy->reset(version{4}); // As after a resume: in the middle of a period.
  std::vector<worker_id> one{w0};
  policy->on_join(one);
  std::string found;
  for (uint64_t i = 1; i <= 7; ++i) {
    auto step =
      policy->on_arrival({{w0, life_number{1}, sequence{i}}, policy->current()})
        .updates.at(0);
    CHECK_THAT(step.rate_factor, WithinRel(1.0 / 3, 1e-15));
    found += step.momentum.decays ? 'd' : '-';
    found += step.momentum.moves ? 'm' : '-';
    found += ' ';
  }
  CHECK(found == "-- -m d- -- -m d- -- ");
}

TEST_CASE("a staleness rule is read with its number") {
  using kind = config::staleness_rule_kind;
  CHECK(config::parse_staleness_rule("none").kind == kind::none);
  CHECK(config::parse_staleness_rule("polynomial").power == 0.5);
  CHECK(config::parse_staleness_rule("delayed-nesterov(every=8)").every == 8);
  CHECK_THROWS_AS(config::parse_staleness_rule("linear"), config::bad_value);
  CHECK_THROWS_AS(config::parse_staleness_rule("polynomial(power=-1)"),
                  config::bad_value);
}
