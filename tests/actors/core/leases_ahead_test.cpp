// How many leases a worker has, and gradients that cover several of them.

#include "tests/support/histories.hpp"
#include "tests/support/members.hpp"
#include "tests/support/paired_policy.hpp"

#include <catch2/catch_test_macros.hpp>

#include <random>
#include <vector>

using namespace troupe;
using namespace troupe::test;

namespace {

/// One worker in the cluster, which asked for so many leases of ten samples.
struct alone {
  explicit alone(uint32_t ahead) {
    uut.enlist(w0, life_number{1}, {}, ahead);
    uut.pull(w0);
    leases = uut.join({&w0, 1}).release.at(0).leases;
  }

  cores::push_facts push_of(size_t first, size_t count) {
    cores::push_facts out{
      {w0, life_number{1}, sequence{++pushes}}, uut.current(), {}};
    for (size_t i = first; i < first + count; ++i)
      out.from.push_back(leases.at(i).id);
    REQUIRE(uut.admit(out.id) == cores::freshness::fresh);
    return out;
  }

  bool holds(const std::vector<lease_id>& ids, uint64_t samples) const {
    return uut.holds(w0, ids, samples);
  }

  cores::step_scheduler uut{policies::make_policy(sync_of(1)),
                            cores::lease_ledger{10'000, 10},
                            cores::stop_rule{{}}, version{0}};
  std::vector<lease> leases;
  uint64_t pushes = 0;
};

} // namespace

TEST_CASE("a worker has as many leases as it asked for, within limits") {
  CHECK(alone{5}.leases.size() == 5);
  CHECK(alone{1}.leases.size() == 1);
  CHECK(alone{0}.leases.size() == 1);
  CHECK(alone{1'000'000}.leases.size() == cores::most_leases_ahead);
}

TEST_CASE("leases are dealt in rounds, whoever asks for more") {
  cores::step_scheduler uut{policies::make_policy(sync_of(2)),
                            cores::lease_ledger{60, 10}, cores::stop_rule{{}},
                            version{0}};
  uut.enlist(w0, life_number{1}, {}, 3);
  uut.enlist(w1, life_number{1}, {}, 1);
  uut.pull(w0);
  uut.pull(w1);
  auto out = uut.join(std::vector{w0, w1}).release;
  REQUIRE(out.size() == 2);
  REQUIRE(out[0].leases.size() == 3);
  REQUIRE(out[1].leases.size() == 1);
  CHECK(out[0].leases[0].first == 0);
  CHECK(out[1].leases[0].first == 10);
  CHECK(out[0].leases[1].first == 20);
  CHECK(out[0].leases[2].first == 30);
}

TEST_CASE("a worker gets other samples before those of its outlier") {
  alone on{2};
  CHECK_FALSE(on.uut.refuse_outlier(on.push_of(0, 1)));
  auto next = on.uut.pull(w0).release.at(0).leases;
  REQUIRE(next.size() == 1);
  CHECK(next[0].first == 20);
  on.leases.push_back(next[0]);
  CHECK_FALSE(on.uut.refuse_outlier(on.push_of(1, 1)));
  CHECK(on.uut.pull(w0).release.at(0).leases.at(0).first == 30);
  // They return with its next gradient that is used.
  CHECK(on.uut.push(on.push_of(2, 1)).release.at(0).leases.at(0).first == 40);
  auto later = on.uut.ledger();
  CHECK(later.grant(w1)->first == 0);
  CHECK(later.grant(w1)->first == 10);
}

TEST_CASE("the samples of an outlier return with the leave of its worker") {
  alone on{2};
  on.uut.refuse_outlier(on.push_of(0, 1));
  CHECK(on.uut.ledger().outstanding() == 2);
  on.uut.leave(w0, life_number{1});
  CHECK(on.uut.ledger().outstanding() == 0);
}

TEST_CASE("an outlier of the last samples does not end their epoch") {
  cores::step_scheduler uut{policies::make_policy(sync_of(2)),
                            cores::lease_ledger{20, 10},
                            cores::stop_rule{{1, {}, {}}}, version{0}};
  for (auto who : {w0, w1}) {
    uut.enlist(who, life_number{1}, {}, 1);
    uut.pull(who);
  }
  auto first = uut.join(std::vector{w0, w1}).release;
  auto push_of = [&uut](worker_id who, uint64_t number, lease_id from) {
    return cores::push_facts{
      {who, life_number{1}, sequence{number}}, uut.current(), {from}};
  };
  uut.push(push_of(w0, 1, first.at(0).leases.at(0).id));
  uut.refuse_outlier(push_of(w1, 1, first.at(1).leases.at(0).id));
  // It rests, so that the step is made without it, and then somebody gets them.
  auto out = uut.pull(w1);
  REQUIRE(out.updates.size() == 1);
  CHECK(out.updates[0].gradients.size() == 1);
  REQUIRE(out.release.size() == 1);
  auto who = out.release[0].worker;
  REQUIRE(out.release[0].leases.size() == 1);
  CHECK(out.release[0].leases[0].first == 10);
  auto last = uut.push(push_of(who, 2, out.release[0].leases[0].id));
  CHECK(last.stop == "reached epochs = 1");
}

TEST_CASE("a gradient of several leases settles all of them") {
  alone on{4};
  auto out = on.uut.push(on.push_of(0, 3));
  REQUIRE(out.updates.size() == 1);
  CHECK(on.uut.ledger().settled() == 30);
  REQUIRE(out.release.size() == 1);
  CHECK(out.release[0].leases.size() == 3); // One of four is left.
  CHECK_FALSE(out.release[0].dropped);
}

TEST_CASE("a refused gradient gives all of its leases back") {
  alone on{4};
  on.uut.refuse(on.push_of(1, 3));
  CHECK(on.uut.ledger().outstanding() == 1);
  CHECK(on.uut.ledger().has_free());
}

TEST_CASE("the samples of a gradient are those of its leases, each once") {
  alone on{4};
  auto first = on.leases[0].id;
  auto second = on.leases[1].id;
  CHECK(on.holds({first}, 10));
  CHECK(on.holds({second, first}, 20));
  CHECK_FALSE(on.holds({first}, 20));
  CHECK_FALSE(on.holds({first, second}, 10));
  CHECK_FALSE(on.holds({first, first}, 20));
  CHECK_FALSE(on.holds({first, lease_id{999}}, 20));
  on.uut.push(on.push_of(0, 1));
  CHECK_FALSE(on.holds({first}, 10));
}

TEST_CASE("a late worker learns that its gradient was dropped") {
  auto cluster = full_cluster(policies::read_spec("backup", 2), 100, 10);
  cluster.finish(w0);
  CHECK(cluster.steps().size() == 1);
  cluster.finish(w1);
  CHECK(cluster.dropped() == 1); // The cluster compares what it is told.
}

// The policy drops every other gradient, perhaps after its worker has sent
// another one, has left, or has come back. The cluster compares.
TEST_CASE("a worker learns what became of its last gradient and no other") {
  for (uint64_t seed = 0; seed < 100; ++seed) {
    INFO("seed " << seed);
    std::mt19937_64 random{seed};
    played_cluster cluster{
      {std::make_unique<paired_policy>(paired_spec(0), true),
       cores::lease_ledger{1000, 10}, cores::stop_rule{{}}, version{0}},
      1000};
    cluster.drops_within_steps = true;
    for (int event = 0; event < 300; ++event) {
      act(cluster, anyone(ranks(3), random), random);
      cluster.check_ledger();
    }
    CHECK(cluster.dropped() > 0);
  }
}
