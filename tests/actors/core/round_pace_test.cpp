// Rounds of local steps by the rates of workers.

#include "tests/support/histories.hpp"
#include "tests/support/members.hpp"

#include <catch2/catch_test_macros.hpp>

#include <limits>

using namespace troupe;
using namespace troupe::test;

TEST_CASE("the quickest worker makes the most steps, others in proportion") {
  cores::round_pace pace{32};
  CHECK(pace.steps_of(w0) == 32); // Nothing is known yet.
  pace.note(w0, 32, 32);
  pace.note(w1, 32, 128);
  pace.note(w2, 32, 64'000);
  CHECK(pace.steps_of(w0) == 32);
  CHECK(pace.steps_of(w1) == 8);
  CHECK(pace.steps_of(w2) == 1);
  CHECK(pace.steps_of(worker_id{3}) == 32);
  SECTION("rounds of other lengths tell the same") {
    pace.note(w1, 8, 32);
    CHECK(pace.steps_of(w1) == 8);
  }
  SECTION("one slow round counts little, and many count") {
    pace.note(w0, 32, 3200);
    CHECK(pace.steps_of(w0) == 32);
    CHECK(pace.steps_of(w1) == 11);
    for (int round = 0; round < 20; ++round)
      pace.note(w0, 32, 3200);
    CHECK(pace.steps_of(w1) == 32);
    CHECK(pace.steps_of(w0) == 1);
  }
  SECTION("a worker that has left is no measure any more") {
    pace.forget(w0);
    CHECK(pace.steps_of(w1) == 32);
    CHECK(pace.steps_of(w0) == 32);
  }
  SECTION("times that mean nothing do not count") {
    for (auto seconds : {0.0, -1.0, std::numeric_limits<double>::quiet_NaN(),
                         std::numeric_limits<double>::infinity()})
      pace.note(w1, 8, seconds);
    pace.note(w1, 0, 1);
    CHECK(pace.steps_of(w1) == 8);
  }
}

TEST_CASE("a worker gets the leases of its next round, and one more") {
  cores::step_scheduler uut{policies::make_policy(sync_of(2)),
                            cores::lease_ledger{10'000, 10},
                            cores::stop_rule{{}}, version{0}};
  uut.pace_rounds(4);
  for (auto who : {w0, w1})
    uut.enlist(who, life_number{1}, {}, cores::leases_for(4));
  uut.pull(w0);
  uut.pull(w1);
  auto first = uut.join(std::vector{w0, w1}).release;
  REQUIRE(first.size() == 2);
  auto push = [&](const cores::release_order& from, size_t steps,
                  double seconds, uint64_t number) {
    cores::push_facts facts{
      {from.worker, life_number{1}, sequence{number}}, uut.current(), {}};
    for (size_t i = 0; i < steps; ++i)
      facts.from.push_back(from.leases.at(i).id);
    facts.samples = 10 * steps;
    facts.seconds = seconds;
    REQUIRE(uut.admit(facts.id) == cores::freshness::fresh);
    return uut.push(facts).release;
  };
  for (const auto& one : first) {
    CHECK(one.leases.size() == 5);
    CHECK(one.steps == 4);
  }
  CHECK(push(first[0], 4, 400, 1).empty()); // Compiles.
  auto second = push(first[1], 4, 8, 1);
  REQUIRE(second.size() == 2);
  CHECK(second[0].steps == 4);
  CHECK(second[1].steps == 4);
  CHECK(push(second[0], 4, 4, 2).empty());
  auto third = push(second[1], 4, 8, 2);
  REQUIRE(third.size() == 2);
  CHECK(third[0].steps == 4);
  CHECK(third[0].leases.size() == 4);
  CHECK(third[1].steps == 2);
  CHECK(third[1].leases.size() == 2); // It has one besides.
}
