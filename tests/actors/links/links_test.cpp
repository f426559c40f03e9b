// The links and the gateway between a worker and a parameter server.

#include "actors/links/chunk_channel.hpp"
#include "actors/links/framed_link.hpp"
#include "actors/links/gateway.hpp"
#include "actors/links/joined_link.hpp"
#include "actors/links/local_link.hpp"
#include "messages/protocol.hpp"
#include "messages/transport/shm/shared_memory.hpp"
#include "tests/support/doubles.hpp"
#include "tests/support/payloads.hpp"
#include "tests/support/scores.hpp"

#include <catch2/catch_test_macros.hpp>

#include <array>

using namespace troupe;
using troupe::testing::scored;
using namespace troupe::test;

namespace {

using weights_answer = answer_ptr<release_header, payload>;
using watch_answer = answer_ptr<watch_header, payload>;

constexpr uint64_t size = 2'000'001; // Eight chunks, the last one small.
constexpr payload_shape shape{element_type::float32, size};

push_header numbered(uint64_t number) {
  push_header out;
  out.id = {worker_id{1}, life_number{1}, sequence{number}};
  out.samples = number;
  out.loss = 5e-324;
  return out;
}

/// What went over the actor connection between the two ends of a link.
struct line_notes {
  std::vector<uint64_t> sizes; ///< Of all chunks.
  uint64_t sent = 0;           ///< Bytes of gradients.
  uint64_t acknowledged = 0;
  uint64_t most_open = 0; ///< The most bytes of gradients without credit.
  chunk_end_actor near;
  chunk_end_actor far;
};

using notes_ptr = std::shared_ptr<line_notes>;

/// Listens in front of one end of a line.
chunk_end_actor::behavior_type listen(chunk_end_actor::pointer self,
                                      const notes_ptr& seen,
                                      const chunk_end_actor& to) {
  self->monitor(to);
  self->set_down_handler([self](const caf::down_msg&) { self->quit(); });
  auto to_server = to == seen->far;
  return {
    [=](attach_atom x, const caf::strong_actor_ptr& other) {
      seen->far = caf::actor_cast<chunk_end_actor>(other);
      auto front = self->spawn([=](chunk_end_actor::pointer next) {
        return listen(next, seen, seen->far);
      });
      self->send(to, x, caf::actor_cast<caf::strong_actor_ptr>(front));
    },
    [=](frame_atom x, uint8_t kind, transfer_id id,
        const caf::byte_buffer& header, const payload_shape& shape) {
      self->send(to, x, kind, id, header, shape);
    },
    [=](chunk_atom x, const chunk& piece) {
      seen->sizes.push_back(piece.size);
      if (to_server) {
        seen->sent += piece.size;
        seen->most_open =
          std::max(seen->most_open, seen->sent - seen->acknowledged);
      }
      self->send(to, x, piece);
    },
    [=](credit_atom x, transfer_id id, uint64_t received) {
      if (!to_server)
        seen->acknowledged = received;
      self->send(to, x, id, received);
    },
    [](frame_atom, const frame_ptr&) {},
    [](detach_atom, const caf::error&) {},
  };
}

/// Listens in front of a gateway, and so in front of both ends of its line.
gateway_actor::behavior_type listen(gateway_actor::pointer self,
                                    const notes_ptr& seen,
                                    const gateway_actor& to) {
  self->monitor(to);
  self->set_down_handler([self](const caf::down_msg&) { self->quit(); });
  return {
    [](attach_atom, const parameter_server_actor&) {
      return coordinator_actor{};
    },
    [=](attach_atom x, const chunk_end_actor& near) {
      seen->near = near;
      self->send(to, x, self->spawn([=](chunk_end_actor::pointer next) {
        return listen(next, seen, near);
      }));
    },
    [](ended_atom) -> caf::result<version, std::vector<push_id>> {
      return {version{}, std::vector<push_id>{}};
    },
    [](fetch_atom, const caf::strong_actor_ptr&) {},
    [](credit_atom, transfer_id, uint64_t) {},
  };
}

/// A link over the actor connection, and a gateway with a stand-in for the
/// server; in between, actors that listen.
struct line {
  explicit line(payload_shape weights = shape) : expected(weights) {
    gateway = actors.make<gateway_actor, gateway_state>(
      gateway_parts{server.handle, coordinator.handle, expected});
    auto front =
      actors.stand_in<gateway_actor>([seen = seen, to = gateway](auto* self) {
        return listen(self, seen, to);
      });
    link = actors.make<framed_link_actor, framed_link_state>(
      front, make_chunk_channel(expected, front), expected);
    auto attached = actors.ask<coordinator_actor>(gateway, attach_atom_v,
                                                  parameter_server_actor{link});
    actors.run();
    REQUIRE(attached->values);
  }

  weights_answer push(const push_header& header, const payload& gradient) {
    auto out =
      actors.ask<release_header, payload>(link, push_atom_v, header, gradient);
    actors.run();
    return out;
  }

  weights_answer pull() {
    auto out = actors.ask<release_header, payload>(
      link, pull_atom_v,
      pull_header{worker_id{1}, life_number{2}, life_number{3}, lease_id{4}});
    actors.run();
    return out;
  }

  watch_answer watch() {
    auto out = actors.ask<watch_header, payload>(link, watch_atom_v,
                                                 watch_request{version{3}});
    actors.run();
    return out;
  }

  /// As the peer would announce a gradient.
  void announce(uint64_t number, payload_shape expected = shape) {
    actors.tell(seen->far, frame_atom_v,
                static_cast<uint8_t>(transport::frame_kind::push),
                transfer_id{number}, transport::write_header(numbered(number)),
                expected);
  }

  payload_shape expected;
  actor_fixture actors;
  notes_ptr seen = std::make_shared<line_notes>();
  server_stand_in server = make_server_stand_in(actors);
  coordinator_stand_in coordinator = make_coordinator_stand_in(actors);
  gateway_actor gateway;
  framed_link_actor link;
};

/// A peer that takes everything and grants nothing.
chunk_end_actor make_deaf_peer(actor_fixture& actors, const notes_ptr& seen) {
  return actors.stand_in<chunk_end_actor>([seen](auto*) {
    return chunk_end_actor::behavior_type{
      [seen](attach_atom, const caf::strong_actor_ptr& other) {
        seen->far = caf::actor_cast<chunk_end_actor>(other);
      },
      [](frame_atom, uint8_t, transfer_id, const caf::byte_buffer&,
         const payload_shape&) {},
      [seen](chunk_atom, const chunk& piece) { seen->sent += piece.size; },
      [](credit_atom, transfer_id, uint64_t) {},
      [](frame_atom, const frame_ptr&) {},
      [](detach_atom, const caf::error&) {},
    };
  });
}

const release_header release{
  version{8}, life_number{3}, {{lease_id{1}, 2, 3, 4}}};

} // namespace

// -- in one process -----------------------------------------------------------

TEST_CASE("in one process a payload is its pointer, both ways") {
  actor_fixture actors;
  auto server = make_server_stand_in(actors);
  auto link = spawn_local_link(actors.system(), server.handle);
  auto gradient = random_payload(1000, 1);
  auto answer = actors.ask<release_header, payload>(link, push_atom_v,
                                                    numbered(1), gradient);
  actors.run();
  REQUIRE(server->pushes.size() == 1);
  CHECK(server->pushes[0].gradient.host_bytes().data() ==
        gradient.host_bytes().data());
  auto weights = random_payload(1000, 2);
  server->pushes[0].promise.deliver(release, weights);
  actors.run();
  CHECK(answer->get<payload>().host_bytes().data() ==
        weights.host_bytes().data());
  CHECK(answer->get<release_header>().weights == version{8});
  actors.kill(link);
}

TEST_CASE("parts of weights in memory of this host are not copied") {
  constexpr uint64_t page = 1024; // Numbers.
  actor_fixture actors;
  transport::shared_memory memory;
  auto part = [&](uint64_t count) {
    auto block = memory.take_block(count * 4);
    auto* data = block.get();
    return payload{{element_type::float32, count}, std::move(block), data};
  };
  std::array parts{part(2 * page), part(page + 1)};
  std::array servers{make_server_stand_in(actors),
                     make_server_stand_in(actors)};
  joined_link_parts what;
  for (size_t i = 0; i < 2; ++i)
    what.parts.push_back({servers[i].handle, parts[i].shape().count});
  auto link =
    actors.make<readable_module_actor, joined_link_state>(std::move(what));
  auto gradient = random_payload(3 * page + 1, 1);
  auto answer = actors.ask<release_header, payload>(link, push_atom_v,
                                                    numbered(1), gradient);
  actors.run();
  for (size_t i = 0; i < 2; ++i) {
    REQUIRE(servers[i]->pushes.size() == 1);
    CHECK(servers[i]->pushes[0].gradient.host_bytes().data() ==
          gradient.host_bytes().data() + i * 2 * page * 4);
    servers[i]->pushes[0].promise.deliver(release, parts[i]);
  }
  actors.run();
  REQUIRE(answer->values);
  auto whole = answer->get<payload>();
  REQUIRE(whole.host_bytes().size() == gradient.host_bytes().size());
  for (size_t i = 0; i < 2; ++i) {
    // What is written to a part is there.
    auto* byte = const_cast<std::byte*>(parts[i].host_bytes().data());
    *byte = std::byte{0x5a};
    CHECK(whole.host_bytes()[i * 2 * page * 4] == std::byte{0x5a});
  }
  actors.kill(link);
}

TEST_CASE("in one process errors, versions and scores pass as they are") {
  actor_fixture actors;
  auto server = make_server_stand_in(actors);
  auto link = spawn_local_link(actors.system(), server.handle);
  auto pull =
    actors.ask<release_header, payload>(link, pull_atom_v, pull_header{});
  auto watch = actors.ask<watch_header, payload>(link, watch_atom_v,
                                                 watch_request{version{3}});
  actors.tell(link, score_atom_v, scored(3, 0.5));
  server->pulls.at(0).promise.deliver(
    caf::make_error(errc::unknown_member, std::string{"who?"}));
  auto weights = random_payload(10, 2);
  server->watches.at(0).deliver(watch_header{version{4}, true}, weights);
  actors.run();
  CHECK(pull->code() == errc::unknown_member);
  CHECK(text_of(*pull->error) == "who?");
  CHECK(watch->get<payload>().host_bytes().data() ==
        weights.host_bytes().data());
  CHECK(server->scores.size() == 1);
  actors.kill(server.handle);
  CHECK_FALSE(actors.alive(link));
}

// -- in chunks ----------------------------------------------------------------

TEST_CASE("a push and its answer arrive whole, with the same bits") {
  line it;
  auto gradient = random_payload(size, 1);
  auto answer = it.push(numbered(1), gradient);
  REQUIRE(it.server->pushes.size() == 1);
  CHECK(it.server->pushes[0].header.id == numbered(1).id);
  CHECK(same_bits(it.server->pushes[0].header.loss, 5e-324));
  CHECK(same_bytes(it.server->pushes[0].gradient, gradient));
  CHECK(answer->open());
  auto weights = random_payload(size, 2);
  it.server->pushes[0].promise.deliver(release, weights);
  it.actors.run();
  CHECK(same_bytes(answer->get<payload>(), weights));
  CHECK(answer->get<release_header>().weights == version{8});
  CHECK((answer->get<release_header>().leases == release.leases));
}

TEST_CASE("messages carry 1 MiB at most, and 4 MiB are on the way at most") {
  line it;
  it.push(numbered(1), random_payload(size, 1));
  it.server->pushes.at(0).promise.deliver(release, random_payload(size, 2));
  it.actors.run();
  CHECK(it.seen->sizes.size() == 2 * 8);
  CHECK(std::ranges::max(it.seen->sizes) == 1u << 20);
  CHECK(it.seen->sent == size * 4);
  CHECK(it.seen->most_open == 4u << 20);
}

TEST_CASE("a pull and a watch are answered with weights") {
  line it;
  auto pull = it.pull();
  auto watch = it.watch();
  REQUIRE(it.server->pulls.size() == 1);
  CHECK(it.server->pulls[0].header.life == life_number{2});
  CHECK(it.server->pulls[0].header.abandoned == lease_id{4});
  CHECK(it.server->watched.at(0) == version{3});
  auto weights = random_payload(size, 2);
  auto due = random_payload(size, 3);
  it.server->watches[0].deliver(watch_header{version{5}, true}, due);
  it.server->pulls[0].promise.deliver(release, weights);
  it.actors.run();
  CHECK(same_bytes(pull->get<payload>(), weights));
  CHECK(same_bytes(watch->get<payload>(), due));
  CHECK(watch->get<watch_header>().weights == version{5});
  CHECK(watch->get<watch_header>().last);
}

TEST_CASE("many requests at once do not mix") {
  line it;
  std::vector<weights_answer> answers;
  for (uint64_t i = 0; i < 6; ++i)
    answers.push_back(it.actors.ask<release_header, payload>(
      it.link, push_atom_v, numbered(i), random_payload(size, i)));
  it.actors.run();
  REQUIRE(it.server->pushes.size() == 6);
  for (const auto& push : it.server->pushes)
    CHECK(same_bytes(push.gradient, random_payload(size, push.header.samples)));
  for (auto& push : it.server->pushes)
    push.promise.deliver(
      release_header{version{push.header.samples}, life_number{3}, {}},
      random_payload(size, 100 + push.header.samples));
  it.actors.run();
  for (uint64_t i = 0; i < 6; ++i) {
    CHECK(answers[i]->get<release_header>().weights == version{i});
    CHECK(
      same_bytes(answers[i]->get<payload>(), random_payload(size, 100 + i)));
  }
}

TEST_CASE("a score passes the line") {
  line it;
  it.actors.tell(it.link, score_atom_v, scored(3, 0.5));
  REQUIRE(it.server->scores.size() == 1);
  CHECK(it.server->scores[0].value_of("accuracy") == 0.5);
}

TEST_CASE("errors pass the line with code and text") {
  line it;
  auto push = it.push(numbered(1), random_payload(size, 1));
  auto pull = it.pull();
  auto watch = it.watch();
  auto no = caf::make_error(errc::not_finite, std::string{"worker 1: NaN"});
  it.server->pushes.at(0).promise.deliver(no);
  it.server->pulls.at(0).promise.deliver(no);
  it.server->watches.at(0).deliver(no);
  it.actors.run();
  CHECK(push->code() == errc::not_finite);
  CHECK(text_of(*push->error) == "worker 1: NaN");
  CHECK(pull->code() == errc::not_finite);
  CHECK(watch->code() == errc::not_finite);
}

TEST_CASE("a gradient of wrong size goes to the server without its bytes") {
  line it;
  payload gradient;
  SECTION("too small") {
    gradient = random_payload(size - 1, 1);
  }
  SECTION("empty") {
    gradient = random_payload(0, 1);
  }
  SECTION("larger than any memory") {
    // Only the announcement, as a broken peer would send it.
    payload_shape large{element_type::float32, uint64_t{1} << 60};
    it.announce(1, large);
    REQUIRE(it.server->pushes.size() == 1);
    CHECK(it.server->pushes[0].gradient.shape() == large);
    CHECK_FALSE(it.server->pushes[0].gradient);
    return;
  }
  auto answer = it.push(numbered(1), gradient);
  REQUIRE(it.server->pushes.size() == 1);
  CHECK(it.server->pushes[0].gradient.shape() == gradient.shape());
  CHECK_FALSE(it.server->pushes[0].gradient);
  it.server->pushes[0].promise.deliver(
    caf::make_error(errc::wrong_size, std::string{"no"}));
  it.actors.run();
  CHECK(answer->code() == errc::wrong_size);
  // The line is as good as before.
  auto next = it.push(numbered(2), random_payload(size, 2));
  CHECK(same_bytes(it.server->pushes.at(1).gradient, random_payload(size, 2)));
}

TEST_CASE("a peer that announces too many gradients loses its connection") {
  line it;
  for (uint64_t i = 0; i < max_pushes_in_flight; ++i)
    it.announce(i);
  CHECK(it.actors.alive(it.seen->far));
  it.announce(99);
  CHECK_FALSE(it.actors.alive(it.seen->far));
  CHECK(it.server->pushes.empty());
  it.actors.advance(2);
  CHECK_FALSE(it.actors.alive(it.link));
  CHECK_FALSE(it.actors.alive(it.gateway));
}

TEST_CASE("when the gateway is gone all open requests are told") {
  line it;
  auto push = it.push(numbered(1), random_payload(size, 1));
  auto pull = it.pull();
  auto watch = it.watch();
  SECTION("it died") {
    it.actors.kill(it.gateway);
  }
  SECTION("the server died") {
    it.actors.kill(it.server.handle);
  }
  CHECK(push->code() == errc::peer_lost);
  CHECK(pull->code() == errc::peer_lost);
  CHECK(watch->code() == errc::peer_lost);
  CHECK_FALSE(it.actors.alive(it.link));
  CHECK_FALSE(it.actors.alive(it.gateway));
}

TEST_CASE("a gateway ends with its link") {
  line it;
  CHECK(it.actors.alive(it.seen->far));
  it.actors.kill(it.link);
  CHECK_FALSE(it.actors.alive(it.gateway));
  CHECK_FALSE(it.actors.alive(it.seen->near));
  CHECK_FALSE(it.actors.alive(it.seen->far));
  CHECK(it.actors.alive(it.server.handle));
}

TEST_CASE("an empty payload arrives, both ways") {
  line it{{element_type::float32, 0}};
  auto answer = it.push(numbered(1), random_payload(0, 1));
  REQUIRE(it.server->pushes.size() == 1);
  CHECK(it.server->pushes[0].gradient);
  it.server->pushes[0].promise.deliver(release, random_payload(0, 1));
  it.actors.run();
  CHECK(answer->values);
}

TEST_CASE("a link does not take weights of another size") {
  line it;
  auto pull = it.pull();
  it.server->pulls.at(0).promise.deliver(release, random_payload(size + 1, 1));
  it.actors.advance(2);
  CHECK(pull->code() == errc::peer_lost);
  CHECK_FALSE(it.actors.alive(it.link));
}

TEST_CASE("what nobody waits for is ignored") {
  line it;
  SECTION("a chunk that was not announced") {
    it.actors.tell(it.seen->far, chunk_atom_v,
                   chunk{transfer_id{1}, 0, random_payload(4, 1), 16, nullptr});
  }
  SECTION("credit for no tensor") {
    it.actors.tell(it.seen->far, credit_atom_v, transfer_id{9}, uint64_t{1});
  }
  auto gradient = random_payload(size, 1);
  it.push(numbered(1), gradient);
  REQUIRE(it.server->pushes.size() == 1);
  CHECK(same_bytes(it.server->pushes[0].gradient, gradient));
}

TEST_CASE("an end that dies is noticed at both ends") {
  line it;
  auto pull = it.pull();
  SECTION("that of the worker") {
    it.actors.kill(it.seen->near);
  }
  SECTION("that of the server") {
    it.actors.kill(it.seen->far);
  }
  it.actors.advance(2);
  CHECK(pull->code() == errc::peer_lost);
  CHECK_FALSE(it.actors.alive(it.link));
  CHECK_FALSE(it.actors.alive(it.gateway));
}

TEST_CASE("a peer that breaks the protocol is cut off") {
  line it;
  auto check_cut_off = [&] {
    CHECK_FALSE(it.actors.alive(it.seen->far));
    it.actors.advance(2);
    CHECK_FALSE(it.actors.alive(it.link));
    CHECK_FALSE(it.actors.alive(it.gateway));
  };
  auto send_piece = [&](uint64_t offset) {
    chunk piece{transfer_id{1}, offset, random_payload(4, 1), 16, nullptr};
    it.actors.tell(it.seen->far, chunk_atom_v, piece);
  };
  SECTION("a chunk out of place") {
    it.announce(1);
    send_piece(0);
    CHECK(it.actors.alive(it.seen->far));
    send_piece(4);
    check_cut_off();
  }
  SECTION("two gradients of one number") {
    it.announce(1);
    it.announce(1);
    check_cut_off();
  }
  SECTION("a header longer than any") {
    it.actors.tell(it.seen->far, frame_atom_v,
                   static_cast<uint8_t>(transport::frame_kind::push),
                   transfer_id{1},
                   caf::byte_buffer(transport::max_header_bytes + 1), shape);
    check_cut_off();
  }
  SECTION("a second end of the peer") {
    it.actors.tell(it.gateway, attach_atom_v,
                   make_deaf_peer(it.actors, it.seen));
    CHECK_FALSE(it.actors.alive(it.gateway));
  }
  SECTION("an end that is nobody") {
    it.actors.tell(it.gateway, attach_atom_v, chunk_end_actor{});
    CHECK_FALSE(it.actors.alive(it.gateway));
  }
}

TEST_CASE("a peer gets no more than it grants credit for") {
  line it;
  auto gateway = it.actors.make<gateway_actor, gateway_state>(
    gateway_parts{it.server.handle, it.coordinator.handle, shape});
  it.actors.tell(gateway, attach_atom_v, make_deaf_peer(it.actors, it.seen));
  auto pull = [&](uint64_t number) {
    it.actors.tell(it.seen->far, frame_atom_v,
                   static_cast<uint8_t>(transport::frame_kind::pull),
                   transfer_id{number}, transport::write_header(pull_header{}),
                   payload_shape{});
    it.server->pulls.back().promise.deliver(release, random_payload(size, 2));
    it.actors.run();
  };
  pull(0);
  CHECK(it.seen->sent == 4u << 20);
  SECTION("credit for what was not sent") {
    it.actors.tell(it.seen->far, credit_atom_v, transfer_id{0},
                   uint64_t{1} << 20);
    CHECK(it.seen->sent == 5u << 20);
    CHECK(it.actors.alive(it.seen->far));
    it.actors.tell(it.seen->far, credit_atom_v, transfer_id{0},
                   (5u << 20) + uint64_t{1});
    CHECK_FALSE(it.actors.alive(it.seen->far));
  }
  SECTION("it takes nothing and asks on") {
    for (uint64_t i = 1; i < max_pushes_in_flight; ++i)
      pull(i);
    CHECK(it.actors.alive(it.seen->far));
    pull(99);
    CHECK_FALSE(it.actors.alive(it.seen->far));
  }
}

TEST_CASE("an answer that nobody asked for cuts the line") {
  line it;
  it.actors.tell(it.seen->near, frame_atom_v,
                 static_cast<uint8_t>(transport::frame_kind::release),
                 transfer_id{77}, transport::write_header(release), shape);
  it.actors.tell(
    it.seen->near, chunk_atom_v,
    chunk{transfer_id{77}, 0, random_payload(size, 1), 4 * size, nullptr});
  it.actors.advance(2);
  CHECK_FALSE(it.actors.alive(it.link));
}

TEST_CASE("frames wait until the other end is known") {
  actor_fixture actors;
  auto seen = std::make_shared<line_notes>();
  auto server = make_server_stand_in(actors);
  auto gateway = actors.stand_in<gateway_actor>([seen](auto*) {
    return gateway_actor::behavior_type{
      [](attach_atom, const parameter_server_actor&) {
        return coordinator_actor{};
      },
      [seen](attach_atom, const chunk_end_actor& near) { seen->near = near; },
      [](ended_atom) -> caf::result<version, std::vector<push_id>> {
        return {version{}, std::vector<push_id>{}};
      },
      [](fetch_atom, const caf::strong_actor_ptr&) {},
      [](credit_atom, transfer_id, uint64_t) {},
    };
  });
  auto link = actors.make<framed_link_actor, framed_link_state>(
    gateway, make_chunk_channel(shape, gateway), shape);
  auto pull =
    actors.ask<release_header, payload>(link, pull_atom_v, pull_header{});
  actors.run();
  CHECK(pull->open());
  auto late = actors.make<gateway_actor, gateway_state>(
    gateway_parts{server.handle, coordinator_actor{}, shape});
  CHECK(server->pulls.empty());
  actors.tell(late, attach_atom_v, seen->near);
  REQUIRE(server->pulls.size() == 1);
  SECTION("and the other end names itself once") {
    actors.tell(seen->near, attach_atom_v,
                caf::actor_cast<caf::strong_actor_ptr>(seen->near));
    actors.advance(2);
    CHECK(pull->code() == errc::peer_lost);
  }
}
