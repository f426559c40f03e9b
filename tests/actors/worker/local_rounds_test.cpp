// A worker that makes local steps: one push for a round of leases.

#include "tests/actors/worker/round_desk.hpp"

#include <catch2/catch_test_macros.hpp>

using namespace troupe;
using namespace troupe::test;

namespace {

using ids = std::vector<lease_id>;

} // namespace

TEST_CASE("a round of local steps is one push of all its leases") {
  round_desk it{3};
  it.give_weights(it.server->pulls[0], 7, leases(1, 4));
  CHECK(it.task(0).local->begins);
  CHECK(it.task(0).weights);
  it.finish(0, 3);
  CHECK(!it.task(1).local->begins);
  CHECK(!it.task(1).local->ends);
  CHECK(it.task(1).local->number == 1);
  CHECK(!it.task(1).weights); // The worker's own.
  CHECK(it.task(1).computed_on == version{7});
  it.finish(1, 2);
  CHECK(it.server->pushes.empty());
  CHECK(it.task(2).local->ends);
  CHECK(it.task(2).local->makes ==
        push_id{round_role.worker, round_role.life, sequence{1}});
  it.finish(2, 1);
  REQUIRE(it.server->pushes.size() == 1);
  const auto& [header, gradient, promise] = it.server->pushes[0];
  CHECK((header.leases() == ids{lease_id{1}, lease_id{2}, lease_id{3}}));
  CHECK(header.computed_on == version{7});
  CHECK(header.samples == 24);
  CHECK(header.loss == 2);
  CHECK(header.compute_seconds == 0.75);
  CHECK(header.inner_steps == 40);
  CHECK(number_of(gradient, 0) == 2);
}

TEST_CASE("a ping finds out how far a worker has come") {
  round_desk it{3};
  auto steps = [&it] {
    auto ping = it.actors.ask<uint64_t>(it.worker, ping_atom_v);
    it.actors.run();
    return ping->get<uint64_t>();
  };
  it.give_weights(it.server->pulls[0], 7, leases(1, 4));
  CHECK(steps() == 0);
  it.finish(0);
  CHECK(steps() == 1);
  it.finish(1);
  CHECK(steps() == 2);
  ++*it.task(2).progress; // Whoever makes several steps for one task.
  CHECK(steps() == 3);
}

TEST_CASE("the next round goes on from the gradient that was taken last") {
  round_desk it{1};
  it.give_weights(it.server->pulls[0], 7, leases(1, 2));
  CHECK(it.task(0).local->after == push_id{});
  it.finish(0);
  it.give_weights(it.server->pushes[0], 8, {lease_of(3)});
  push_id first{round_role.worker, round_role.life, sequence{1}};
  CHECK(it.task(1).local->after == first);
  it.finish(1);
  it.server->pushes[1].promise.deliver(
    caf::make_error(errc::not_finite, std::string{"refused"}));
  it.actors.run();
  it.give_weights(it.server->pulls.at(1), 8, {lease_of(4)});
  CHECK(it.task(2).local->after == first); // The second one leaves no trace.
}

TEST_CASE("a round ends early when there is no lease") {
  round_desk it{10};
  it.give_weights(it.server->pulls[0], 7, leases(1, 2));
  it.finish(0);
  CHECK(it.task(1).local->ends);
  it.finish(1);
  CHECK(it.server->pushes.at(0).header.samples == 16);
}

TEST_CASE("a round has as many steps as the server says") {
  round_desk it{10};
  it.give_weights(it.server->pulls[0], 7, leases(1, 11), 2);
  it.finish(0);
  CHECK(it.task(1).local->ends);
  it.finish(1);
  it.give_weights(it.server->pushes.at(0), 8, {}, 1);
  CHECK(it.task(2).local->ends);
  it.finish(2);
  it.give_weights(it.server->pushes.at(1), 9, {});
  CHECK(!it.task(3).local->ends);
}

TEST_CASE("a round ends with its epoch") {
  round_desk it{10};
  it.give_weights(it.server->pulls[0], 7,
                  {lease_of(1), lease_of(2), lease_of(3, 1), lease_of(4, 1)});
  it.finish(0);
  CHECK(it.task(1).local->ends);
  it.finish(1);
  it.give_weights(it.server->pushes.at(0), 8, {});
  CHECK(it.task(2).local->begins);
  CHECK(it.task(2).from == lease_of(3, 1));
}

TEST_CASE("only the next batches of a long round are loaded") {
  round_desk it{100};
  it.give_weights(it.server->pulls[0], 7, leases(1, 100));
  CHECK(it.loader->leases.size() == 3); // One is computed.
  it.finish(0);
  CHECK(it.loader->leases.size() == 4);
}

TEST_CASE("a round that is cancelled gives back what was begun") {
  round_desk it{4};
  it.give_weights(it.server->pulls[0], 7, leases(1, 5));
  it.finish(0);
  it.actors.tell(it.worker, cancel_atom_v, version{8});
  CHECK(it.task(1).cancel->load());
  it.finish(1);
  REQUIRE(it.server->pulls.size() == 2);
  CHECK((it.server->pulls[1].header.leases() == ids{lease_id{1}, lease_id{2}}));
  CHECK(it.server->pushes.empty());
  it.give_weights(it.server->pulls[1], 8, {lease_of(6)});
  REQUIRE(it.compute->tasks.size() == 3);
  CHECK(it.task(2).local->begins);
  CHECK(it.task(2).from == lease_of(3));
}

TEST_CASE("a round is cancelled also while it waits for a batch") {
  round_desk it{4};
  it.loader->holds = true;
  it.give_weights(it.server->pulls[0], 7, leases(1, 5));
  it.loader->promises[0].deliver(loaded_batch{lease_of(1), it.batch});
  it.actors.run();
  it.finish(0);
  CHECK(it.compute->tasks.size() == 1);
  it.actors.tell(it.worker, cancel_atom_v, version{8});
  REQUIRE(it.server->pulls.size() == 2);
  CHECK((it.server->pulls[1].header.leases() == ids{lease_id{1}}));
}

TEST_CASE("a worker that is to leave pushes the steps that it has made") {
  round_desk it{10};
  it.give_weights(it.server->pulls[0], 7, leases(1, 11));
  it.finish(0);
  auto left = it.actors.ask<sequence>(it.worker, leave_atom_v);
  it.actors.run();
  it.finish(1);
  REQUIRE(it.compute->tasks.size() == 3);
  CHECK(!it.task(2).batch);
  CHECK(it.task(2).local->ends);
  it.finish(2);
  REQUIRE(it.server->pushes.size() == 1);
  CHECK(
    (it.server->pushes[0].header.leases() == ids{lease_id{1}, lease_id{2}}));
  CHECK(it.server->pushes[0].header.samples == 16);
  CHECK(left->open());
  it.give_weights(it.server->pushes[0], 8, {});
  CHECK(left->get<sequence>() == sequence{1});
}
