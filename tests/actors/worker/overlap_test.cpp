// A round that begins before the push of the round before is answered.

#include "tests/actors/worker/round_desk.hpp"

#include <catch2/catch_test_macros.hpp>

using namespace troupe;
using namespace troupe::test;

namespace {

using lease_ids = std::vector<lease_id>;

/// Makes the first round of a worker with three local steps, whose leases are 1
/// to 3; so many more it has then.
struct after_a_round : round_desk {
  explicit after_a_round(uint32_t early, uint64_t more) : round_desk(3, early) {
    give_weights(server->pulls[0], 7, leases(1, 3 + more));
    for (size_t i = 0; i < 3; ++i)
      finish(i);
  }

  const local_step& step(size_t i) const { return *task(i).local; }

  size_t tasks() const { return compute->tasks.size(); }
};

} // namespace

TEST_CASE("a worker goes on before its push is answered, and merges the "
          "weights then") {
  after_a_round it{2, 3};
  REQUIRE(it.server->pushes.size() == 1);
  CHECK(it.server->pushes[0].header.early_steps == 0);
  REQUIRE(it.tasks() == 4);
  CHECK(it.task(3).from == lease_of(4));
  CHECK(it.step(3).begins);
  CHECK(it.step(3).goes_on);
  CHECK(!it.step(3).merges);
  CHECK(!it.task(3).weights);
  push_id first{round_role.worker, round_role.life, sequence{1}};
  CHECK(it.step(3).after == first);
  CHECK(it.task(3).computed_on == version{8}); // For the rate of this step.
  SECTION("whether they come early") {
    it.go_on(0, 9, leases(7, 9));
    it.finish(3);
    REQUIRE(it.tasks() == 5);
    CHECK(!it.step(4).merges);
    it.finish(4);
  }
  SECTION("or late") {
    it.finish(3);
    CHECK(!it.step(4).ends);
    it.finish(4);
    CHECK(it.tasks() == 5); // It waits.
    it.go_on(0, 9, leases(7, 9));
  }
  REQUIRE(it.tasks() == 6);
  CHECK(it.task(5).from == lease_of(6));
  CHECK(it.task(5).weights);
  CHECK(it.task(5).computed_on == version{9});
  CHECK(it.step(5).merges);
  CHECK(!it.step(5).begins);
  CHECK(it.step(5).number == 2);
  CHECK(it.step(5).ends);
  it.finish(5);
  REQUIRE(it.server->pushes.size() == 2);
  const auto& header = it.server->pushes[1].header;
  CHECK(header.computed_on == version{9});
  CHECK(header.early_steps == 2);
  CHECK((header.leases() == lease_ids{lease_id{4}, lease_id{5}, lease_id{6}}));
}

TEST_CASE("what was made before the weights is undone if the push is not "
          "taken") {
  after_a_round it{2, 2};
  it.finish(3);
  auto loaded = it.loader->leases.size();
  SECTION("while a step is computed") {
    it.give_weights(it.server->pushes[0], 9, {});
    CHECK(it.task(4).cancel->load());
    CHECK(it.tasks() == 5);
    it.finish(4);
  }
  SECTION("while the worker waits") {
    it.finish(4);
    it.give_weights(it.server->pushes[0], 9, {});
  }
  SECTION("when it is refused") {
    it.server->pushes[0].promise.deliver(
      caf::make_error(errc::not_finite, std::string{"refused"}));
    it.actors.run();
    REQUIRE(it.server->pulls.size() == 2);
    CHECK(it.server->pulls[1].header.leases().empty());
    it.finish(4);
    it.give_weights(it.server->pulls[1], 9, {});
    CHECK(it.step(5).after == push_id{});
  }
  REQUIRE(it.tasks() == 6);
  CHECK(it.loader->leases.size() == loaded); // They are still there.
  CHECK(it.task(5).from == lease_of(4));
  CHECK(it.task(5).weights);
  CHECK(it.step(5).begins);
  CHECK(!it.step(5).goes_on);
  CHECK(!it.step(5).merges);
  it.finish(5);
  CHECK(it.task(6).from == lease_of(5));
  CHECK(it.step(6).ends);
  it.finish(6);
  const auto& header = it.server->pushes.at(1).header;
  CHECK(header.early_steps == 0);
  CHECK((header.leases() == lease_ids{lease_id{4}, lease_id{5}}));
}

TEST_CASE("a worker makes as many steps before the weights as it has leases") {
  SECTION("none") {
    after_a_round it{2, 0};
    CHECK(it.tasks() == 3);
    it.go_on(0, 9, leases(4, 9));
    CHECK(it.step(3).begins);
    CHECK(it.step(3).goes_on);
    CHECK(it.step(3).merges);
    CHECK(it.task(3).weights);
  }
  SECTION("one, also if the weights bring more") {
    after_a_round it{2, 1};
    it.go_on(0, 9, leases(5, 9));
    it.finish(3);
    CHECK(it.step(4).merges);
    CHECK(it.step(4).number == 1);
  }
  SECTION("and no more come: the round ends with the weights") {
    after_a_round it{2, 1};
    it.finish(3);
    CHECK(it.server->pushes.size() == 1);
    it.go_on(0, 9, {});
    REQUIRE(it.tasks() == 5);
    CHECK(!it.task(4).batch);
    CHECK(it.task(4).weights);
    CHECK(it.step(4).merges);
    CHECK(it.step(4).ends);
    it.finish(4);
    const auto& header = it.server->pushes.at(1).header;
    CHECK((header.leases() == lease_ids{lease_id{4}}));
    CHECK(header.early_steps == 1);
    CHECK(header.samples == 8);
  }
}

TEST_CASE("a round that begins early is of one epoch, too") {
  round_desk it{3, 2};
  it.give_weights(it.server->pulls[0], 7,
                  {lease_of(1), lease_of(2), lease_of(3, 1), lease_of(4, 2)});
  it.finish(0);
  it.finish(1);
  CHECK(it.task(2).from == lease_of(3, 1));
  it.finish(2);
  CHECK(it.compute->tasks.size() == 3);
  it.go_on(0, 9, {});
  CHECK(!it.task(3).batch);
  CHECK(it.task(3).local->ends);
}

TEST_CASE("a cancellation is of the weights that a round has") {
  after_a_round it{2, 4};
  it.actors.tell(it.worker, cancel_atom_v, version{8});
  CHECK(!it.task(3).cancel->load()); // It was for the round that is pushed.
  SECTION("they have come, and are too old") {
    it.go_on(0, 9, {});
    it.actors.tell(it.worker, cancel_atom_v, version{10});
    CHECK(it.task(3).cancel->load());
    it.finish(3);
    REQUIRE(it.server->pulls.size() == 2);
    CHECK((it.server->pulls[1].header.leases() == lease_ids{lease_id{4}}));
    it.give_weights(it.server->pulls[1], 11, {});
    CHECK(it.task(4).from == lease_of(5));
    CHECK(it.task(4).weights);
    CHECK(it.step(4).begins);
    CHECK(!it.step(4).goes_on);
  }
  SECTION("they have come for a push that was not taken") {
    it.give_weights(it.server->pushes[0], 9, {});
    it.actors.tell(it.worker, cancel_atom_v, version{10});
    it.finish(3);
    REQUIRE(it.server->pulls.size() == 2);
    CHECK((it.server->pulls[1].header.leases() == lease_ids{lease_id{4}}));
    it.give_weights(it.server->pulls[1], 11, {});
    CHECK(it.task(4).from == lease_of(5));
    CHECK(it.task(4).weights);
  }
  SECTION("they are not too old") {
    it.go_on(0, 9, {});
    it.actors.tell(it.worker, cancel_atom_v, version{9});
    CHECK(!it.task(3).cancel->load());
  }
}

TEST_CASE("a worker that is to leave pushes no steps that have no weights") {
  after_a_round it{2, 3};
  auto left = it.actors.ask<sequence>(it.worker, leave_atom_v);
  it.actors.run();
  CHECK(it.task(3).cancel->load());
  it.finish(3);
  CHECK(it.tasks() == 4);
  CHECK(left->open());
  it.go_on(0, 9, {});
  CHECK(left->get<sequence>() == sequence{1});
  CHECK(it.tasks() == 4);
  CHECK(it.server->pushes.size() == 1);
}

TEST_CASE("a place that is lost takes the steps before the weights along") {
  after_a_round it{2, 3};
  it.actors.tell(it.worker, detach_atom_v);
  it.finish(3);
  it.actors.tell(it.worker, attach_atom_v, it.server.handle, round_role,
                 gradient_way{});
  it.give_weights(it.server->pulls.at(1), 9, leases(11, 14));
  REQUIRE(it.tasks() == 5);
  CHECK(it.task(4).from == lease_of(11));
  CHECK(!it.step(4).goes_on);
}
