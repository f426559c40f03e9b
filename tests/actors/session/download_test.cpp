// Weights that are not trained, on their way from a gateway to a node.

#include "actors/links/gateway.hpp"
#include "actors/session/download.hpp"
#include "tests/support/doubles.hpp"
#include "tests/support/payloads.hpp"

#include <catch2/catch_test_macros.hpp>

#include <algorithm>

using namespace troupe;
using namespace troupe::test;

namespace {

constexpr payload_shape frozen_shape{element_type::float32,
                                     2'000'001}; // 8 chunks.

struct server_with_frozen_weights {
  actor_fixture actors;
  payload weights = random_payload(frozen_shape.count, 3);
  gateway_actor gateway = actors.make<gateway_actor, gateway_state>(
    gateway_parts{make_server_stand_in(actors).handle,
                  coordinator_actor{},
                  frozen_shape,
                  {},
                  weights});

  /// A peer that takes part by hand.
  download_actor peer(uint64_t& received) {
    return actors.stand_in<download_actor>([&received](auto*) {
      return download_actor::behavior_type{
        [](fetch_atom, const gateway_actor&, const payload_shape&) {
          return payload{};
        },
        [&received](chunk_atom, const chunk& piece) { received += piece.size; },
        [](tick_atom) {},
      };
    });
  }

  void fetch(const download_actor& by) {
    actors.tell(gateway, fetch_atom_v,
                caf::actor_cast<caf::strong_actor_ptr>(by));
  }
};

} // namespace

TEST_CASE("a download ends with all bytes") {
  server_with_frozen_weights on;
  auto by = on.actors.make<download_actor, download_state>(10.0);
  auto got = on.actors.ask<payload>(by, fetch_atom_v, on.gateway, frozen_shape);
  on.actors.run();
  REQUIRE(got->values);
  CHECK(got->get<payload>().shape() == frozen_shape);
  CHECK(std::ranges::equal(got->get<payload>().host_bytes(),
                           on.weights.host_bytes()));
  CHECK_FALSE(on.actors.alive(by));
  CHECK(on.actors.alive(on.gateway));
}

TEST_CASE("no more is on its way than a peer has made room for") {
  server_with_frozen_weights on;
  uint64_t received = 0;
  on.fetch(on.peer(received));
  CHECK(received == transport::default_window_bytes);
  on.actors.tell(on.gateway, credit_atom_v, transfer_id{0}, received / 2);
  CHECK(received == transport::default_window_bytes * 3 / 2);
}

TEST_CASE("a peer that downloads has its time from the last chunk on") {
  server_with_frozen_weights on;
  uint64_t received = 0;
  on.fetch(on.peer(received));
  for (uint64_t part = 1; part <= 3; ++part) {
    on.actors.advance(100);
    REQUIRE(on.actors.alive(on.gateway));
    on.actors.tell(on.gateway, credit_atom_v, transfer_id{0}, part << 20);
  }
  on.actors.advance(121);
  CHECK_FALSE(on.actors.alive(on.gateway));
}

TEST_CASE("a peer gets no time for what it has told before") {
  server_with_frozen_weights on;
  uint64_t received = 0;
  on.fetch(on.peer(received));
  auto bytes = frozen_shape.bytes();
  SECTION("of the same chunk") {
    bytes = 1u << 20;
  }
  SECTION("of a download that is done") {
    for (auto part = received; part < bytes; part = received)
      on.actors.tell(on.gateway, credit_atom_v, transfer_id{0}, part);
  }
  on.actors.tell(on.gateway, credit_atom_v, transfer_id{0}, bytes);
  on.actors.advance(100);
  on.actors.tell(on.gateway, credit_atom_v, transfer_id{0}, bytes);
  on.actors.advance(21);
  CHECK_FALSE(on.actors.alive(on.gateway));
}

TEST_CASE("a peer that breaks the rules of a download costs its gateway") {
  server_with_frozen_weights on;
  uint64_t received = 0;
  auto peer = on.peer(received);
  SECTION("credit without a download") {
    on.actors.tell(on.gateway, credit_atom_v, transfer_id{0}, uint64_t{1});
  }
  SECTION("credit for more than was sent") {
    on.fetch(peer);
    on.actors.tell(on.gateway, credit_atom_v, transfer_id{0}, received + 1);
  }
  SECTION("credit for more than there is, when all is sent") {
    on.fetch(peer);
    while (received < frozen_shape.bytes())
      on.actors.tell(on.gateway, credit_atom_v, transfer_id{0}, received);
    on.actors.tell(on.gateway, credit_atom_v, transfer_id{0}, received);
    on.actors.tell(on.gateway, credit_atom_v, transfer_id{0}, received + 1);
  }
  SECTION("a second download") {
    on.fetch(peer);
    on.fetch(peer);
  }
  SECTION("a download for nobody") {
    on.fetch({});
  }
  CHECK_FALSE(on.actors.alive(on.gateway));
}

TEST_CASE("a server without frozen weights has no download") {
  actor_fixture actors;
  auto gateway = actors.make<gateway_actor, gateway_state>(gateway_parts{
    make_server_stand_in(actors).handle, coordinator_actor{}, frozen_shape});
  auto by = actors.make<download_actor, download_state>(10.0);
  auto got = actors.ask<payload>(by, fetch_atom_v, gateway, frozen_shape);
  actors.run();
  CHECK(got->code() == errc::peer_lost);
}

TEST_CASE("a download fails with its server") {
  actor_fixture actors;
  auto gateway = make_gateway_stand_in(actors);
  auto by = actors.make<download_actor, download_state>(10.0);
  auto got = actors.ask<payload>(by, fetch_atom_v, gateway, frozen_shape);
  actors.run();
  auto source = random_payload(frozen_shape.count, 1);
  SECTION("when it is lost") {
    actors.kill(gateway);
    CHECK(got->code() == errc::peer_lost);
  }
  SECTION("when nothing comes any more") {
    actors.advance(9);
    actors.tell(by, chunk_atom_v,
                chunk{transfer_id{0}, 0, source, 1u << 20, nullptr});
    actors.advance(10);
    CHECK(got->open());
    actors.advance(11);
    CHECK(got->code() == errc::timed_out);
  }
  SECTION("when a chunk is out of place") {
    actors.tell(by, chunk_atom_v,
                chunk{transfer_id{0}, 4, source, 1u << 20, nullptr});
    CHECK(got->code() == errc::protocol_violation);
  }
}

TEST_CASE("what the run ends with comes in the same way") {
  actor_fixture actors;
  auto coordinator = make_coordinator_stand_in(actors);
  auto weights = random_payload(frozen_shape.count, 4);
  auto gateway = actors.make<gateway_actor, gateway_state>(gateway_parts{
    make_server_stand_in(actors).handle, coordinator.handle, frozen_shape});
  auto ask = [&] {
    auto out = actors.ask<version, std::vector<push_id>>(gateway, ended_atom_v);
    actors.run();
    return out;
  };
  SECTION("when there is something") {
    coordinator->last.push_back({version{7}, {}, weights});
    CHECK(std::get<version>(*ask()->values) == version{7});
    auto by = actors.make<download_actor, download_state>(10.0);
    auto got = actors.ask<payload>(by, fetch_atom_v, gateway, frozen_shape);
    actors.run();
    CHECK(std::ranges::equal(got->get<payload>().host_bytes(),
                             weights.host_bytes()));
    CHECK(coordinator->credits == 8);
    CHECK(ask()->code() == errc::protocol_violation); // Once.
    CHECK_FALSE(actors.alive(gateway));
  }
  SECTION("and else not") {
    CHECK(ask()->code() == errc::shutting_down);
    CHECK(actors.alive(gateway));
  }
}
