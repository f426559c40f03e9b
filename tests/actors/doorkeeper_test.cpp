// Who is let in, and for how long he is waited for.

#include "actors/accept_gate.hpp"
#include "actors/doorkeeper.hpp"
#include "messages/protocol.hpp"
#include "tests/support/doubles.hpp"

#include <catch2/catch_test_macros.hpp>

using namespace troupe;
using namespace troupe::test;

namespace {

/// A node that says hello whenever it is told to, as a connector does.
doorkeeper_actor make_caller(stage& house, const doorkeeper_actor& door) {
  return house.stand_in<doorkeeper_actor>([door](auto* self) {
    return doorkeeper_actor::behavior_type{
      [self, door](const std::string& hello)
        -> caf::result<std::string, caf::strong_actor_ptr> {
        auto answer =
          self->template make_response_promise<std::string,
                                               caf::strong_actor_ptr>();
        self->request(door, caf::infinite, hello)
          .then([answer](const std::string& welcome,
                         const caf::strong_actor_ptr& inside) mutable {
            answer.deliver(welcome, inside);
          });
        return answer;
      }};
  });
}

struct entrance {
  explicit entrance(size_t most_expected = 10) {
    doorkeeper_parts parts;
    parts.weights = {element_type::float32, 10};
    parts.whole = parts.weights;
    parts.server = server.handle;
    parts.coordinator = coordinator.handle;
    parts.patience = 3;
    parts.most_expected = most_expected;
    door = house.make<doorkeeper_actor, doorkeeper_state>(std::move(parts));
  }

  /// The gateway of this caller.
  gateway_actor hello(const doorkeeper_actor& caller) {
    proto::Hello out;
    out.set_protocol(protocol_version);
    out.set_role("worker");
    auto answer = house.ask<std::string, caf::strong_actor_ptr>(
      caller, out.SerializeAsString());
    house.run();
    return caf::actor_cast<gateway_actor>(answer->get<caf::strong_actor_ptr>());
  }

  gateway_actor hello() { return hello(make_caller(house, door)); }

  /// The caller comes with a link.
  answer_ptr<coordinator_actor> come(const gateway_actor& to,
                                     const parameter_server_actor& link) {
    auto out = house.ask<coordinator_actor>(to, attach_atom_v, link);
    house.run();
    return out;
  }

  stage house;
  server_stand_in server = make_server_stand_in(house);
  server_stand_in link = make_server_stand_in(house);
  coordinator_stand_in coordinator = make_coordinator_stand_in(house);
  doorkeeper_actor door;
};

} // namespace

TEST_CASE("a peer that says hello and does not come is waited for a while") {
  entrance it;
  auto stays = it.hello();
  auto goes = it.hello();
  CHECK(it.come(stays, it.link.handle)->values);
  it.house.advance(2.9);
  CHECK(it.house.alive(goes));
  it.house.advance(0.2);
  CHECK_FALSE(it.house.alive(goes));
  it.house.advance(10);
  CHECK(it.house.alive(stays));
  it.house.kill(it.link.handle);
  CHECK_FALSE(it.house.alive(stays));
}

TEST_CASE("a peer that goes before it comes leaves nothing behind") {
  entrance it;
  auto caller = make_caller(it.house, it.door);
  auto gateway = it.hello(caller);
  CHECK(it.house.alive(gateway));
  it.house.kill(caller);
  CHECK_FALSE(it.house.alive(gateway));
}

TEST_CASE("who says hello again has given up what it was given before") {
  entrance it;
  auto caller = make_caller(it.house, it.door);
  auto first = it.hello(caller);
  auto second = it.hello(caller);
  CHECK_FALSE(it.house.alive(first));
  CHECK(it.house.alive(second));
  // But for what it uses: a node may have more than one link.
  it.come(second, it.link.handle);
  auto third = it.hello(caller);
  CHECK(it.house.alive(second));
  CHECK(it.house.alive(third));
}

TEST_CASE("only so many peers are waited for at a time") {
  entrance it{2};
  auto first = it.hello();
  auto second = it.hello();
  it.come(second, it.link.handle);
  auto third = it.hello();
  CHECK(it.house.alive(first));
  auto fourth = it.hello();
  CHECK_FALSE(it.house.alive(first));
  for (const auto& one : {second, third, fourth})
    CHECK(it.house.alive(one));
}

TEST_CASE("a link that is nobody is no link") {
  entrance it;
  auto gateway = it.hello();
  CHECK(it.come(gateway, parameter_server_actor{})->code() ==
        errc::protocol_violation);
  CHECK_FALSE(it.house.alive(gateway));
}

TEST_CASE("a port is shut before the last descriptor, and opens for more than "
          "one node") {
  // Of 64, 16 are the run's own.
  CHECK(should_accept(true, 16, 64));
  CHECK_FALSE(should_accept(true, 15, 64));
  CHECK_FALSE(should_accept(false, 19, 64));
  CHECK(should_accept(false, 20, 64));
  // With few in all, fewer are.
  CHECK(should_accept(true, 8, 32));
  CHECK_FALSE(should_accept(true, 7, 32));
  CHECK(should_accept(true, 1000, 1'048'576));
}
