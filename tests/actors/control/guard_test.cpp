// What a node may send to CAF, and what ends its connection.

#include "actors/control/guard.hpp"
#include "messages/interfaces.hpp"

#include <caf/all.hpp>
#include <caf/binary_serializer.hpp>
#include <caf/io/basp/header.hpp>
#include <caf/io/basp/message_type.hpp>
#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_exception.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include <algorithm>
#include <random>
#include <span>
#include <string>
#include <vector>

using namespace troupe;
using namespace troupe::control;
using caf::io::basp::header;
using caf::io::basp::message_type;
using Catch::Matchers::ContainsSubstring;
using Catch::Matchers::MessageMatches;

namespace {

constexpr caf::actor_id published = 7;
constexpr caf::actor_id secret = 8;

struct bare_node {
  bare_node() { given->publish(published); }

  template <class... Ts>
  caf::byte_buffer frame(header head, const Ts&... values) {
    caf::byte_buffer payload;
    caf::binary_serializer body{system, payload};
    REQUIRE((body.apply(values) && ...));
    head.payload_len = static_cast<uint32_t>(payload.size());
    caf::byte_buffer out;
    caf::binary_serializer sink{system, out};
    REQUIRE(sink.apply(head));
    out.insert(out.end(), payload.begin(), payload.end());
    return out;
  }

  caf::byte_buffer hello(const caf::node_id& from) {
    return frame({message_type::client_handshake, 0, 0, 0, 0, 0}, from);
  }

  template <class... Ts>
  caf::byte_buffer message(caf::actor_id from, caf::actor_id to,
                           const Ts&... values) {
    return frame({message_type::direct_message, 0, 0, 0, from, to},
                 std::vector<caf::strong_actor_ptr>{},
                 caf::make_message(values...));
  }

  /// A message with the handle of an actor.
  caf::byte_buffer handle(caf::actor_id to, const caf::node_id& node,
                          caf::actor_id whom) {
    return frame({message_type::direct_message, 0, 0, 0, 3, to},
                 std::vector<caf::strong_actor_ptr>{},
                 std::vector{caf::type_id_v<caf::strong_actor_ptr>}, whom,
                 node);
  }

  caf::byte_buffer about(message_type kind, caf::actor_id whom,
                         const caf::node_id& from, const caf::node_id& to) {
    if (kind == message_type::down_message)
      return frame({kind, 0, 0, 0, whom, 0}, from, to, caf::error{});
    return frame({kind, 0, 0, 0, 0, whom}, from, to);
  }

  bool ready_ = (init_messages(), true);
  caf::actor_system_config config;
  caf::actor_system system{config};
  grants_ptr given = std::make_shared<grants>();
  caf::node_id node =
    caf::make_node_id(42, "0011223344556677889900112233445566778899").value();
  caf::node_id other =
    caf::make_node_id(43, "0011223344556677889900112233445566778899").value();
};

/// Bytes come as they come: in pieces of at most this size.
void put(guard& uut, std::span<const caf::byte> bytes, size_t most = SIZE_MAX) {
  while (!bytes.empty()) {
    auto room = uut.room();
    REQUIRE_FALSE(room.empty());
    auto count = std::min({room.size(), bytes.size(), most});
    std::copy_n(bytes.begin(), count, room.begin());
    bytes = bytes.subspan(count);
    uut.came(count);
  }
}

caf::byte_buffer passed(guard& uut) {
  caf::byte_buffer out(uut.ready());
  CHECK(uut.take(out) == out.size());
  return out;
}

caf::byte_buffer operator+(caf::byte_buffer left,
                           const caf::byte_buffer& right) {
  left.insert(left.end(), right.begin(), right.end());
  return left;
}

} // namespace

TEST_CASE("whole messages pass as they are, however their bytes come") {
  bare_node at;
  auto bytes =
    at.hello(at.node) + at.frame({message_type::heartbeat, 0, 0, 0, 0, 0}) +
    at.message(3, published, std::string(100'000, 'x')) +
    at.about(message_type::monitor_message, published, at.node,
             at.system.node()) +
    at.about(message_type::down_message, 3, at.node, at.system.node());
  for (size_t most : {size_t{1}, size_t{7}, size_t{5000}, SIZE_MAX}) {
    guard uut{at.system, at.given};
    put(uut, bytes, most);
    CHECK(uut.node() == at.node);
    CHECK(passed(uut) == bytes);
  }
}

TEST_CASE("nothing passes before all of a message is there") {
  bare_node at;
  guard uut{at.system, at.given};
  put(uut, at.hello(at.node));
  passed(uut);
  at.given->allow(at.node, secret);
  auto bytes = at.message(3, secret, std::string(1'000'000, 'x'));
  std::span<const caf::byte> all{bytes};
  put(uut, all.first(100));
  CHECK(uut.ready() == 0);
  // Room is made for what comes, not for what is announced.
  CHECK(uut.room().size() <= 4096);
  put(uut, all.subspan(100));
  CHECK(passed(uut) == bytes);
}

TEST_CASE("a length alone ends the connection when it is too large") {
  bare_node at;
  auto announces = [&](uint32_t size) {
    caf::byte_buffer out;
    caf::binary_serializer sink{at.system, out};
    header head{message_type::direct_message, 0, size, 0, 3, published};
    REQUIRE(sink.apply(head));
    return out;
  };
  guard uut{at.system, at.given};
  CHECK_THROWS_MATCHES(put(uut, announces(5000)), breach,
                       MessageMatches(ContainsSubstring("4096 are allowed")));
  guard after{at.system, at.given};
  put(after, at.hello(at.node));
  CHECK_NOTHROW(put(after, announces(guard::most)));
  guard another{at.system, at.given};
  CHECK_THROWS_MATCHES(put(another, at.hello(at.other) + announces(1u << 30)),
                       breach,
                       MessageMatches(ContainsSubstring("1073741824 B")));
}

TEST_CASE("a node reaches only actors that it was given") {
  bare_node at;
  caf::byte_buffer to_secret = at.message(3, secret, uint64_t{1});
  auto fresh = [&] {
    auto out = std::make_unique<guard>(at.system, at.given);
    put(*out, at.hello(at.node));
    passed(*out);
    return out;
  };
  CHECK_THROWS_AS(put(*fresh(), to_secret), breach);
  CHECK_THROWS_AS(put(*fresh(), at.about(message_type::monitor_message, secret,
                                         at.node, at.system.node())),
                  breach);
  SECTION("by a message in its name") {
    auto uut = fresh();
    auto bytes = at.frame({message_type::heartbeat, 0, 0, 0, 0, 0}) +
                 at.message(secret, 3, std::string{"I am here"});
    for (auto one : bytes)
      uut->goes({&one, 1});
    put(*uut, to_secret);
    CHECK(passed(*uut) == to_secret);
  }
  SECTION("by a grant, until the connection ends") {
    auto uut = fresh();
    at.given->allow(at.node, secret);
    put(*uut, to_secret);
    CHECK(passed(*uut) == to_secret);
    uut.reset();
    CHECK_THROWS_AS(put(*fresh(), to_secret), breach);
  }
  SECTION("not by a grant of another's") {
    guard others{at.system, at.given};
    put(others, at.hello(at.other));
    at.given->allow(at.other, secret);
    CHECK_THROWS_AS(put(*fresh(), to_secret), breach);
  }
}

TEST_CASE("what CAF asks by itself is dropped, and its answers too") {
  bare_node at;
  guard uut{at.system, at.given};
  put(uut, at.hello(at.node));
  passed(uut);
  header asks{
    message_type::direct_message, header::named_receiver_flag, 0, 0, 3,
    header::spawn_server_id};
  auto question = at.frame(
    asks, std::vector<caf::strong_actor_ptr>{},
    caf::make_message(caf::sys_atom_v, caf::get_atom_v, std::string{"info"}));
  put(uut, question);
  asks.source_actor = secret;
  uut.goes(at.frame(asks, std::vector<caf::strong_actor_ptr>{},
                    caf::make_message(caf::get_atom_v)));
  put(uut, at.message(3, secret, caf::ok_atom_v));
  CHECK(uut.ready() == 0);
}

TEST_CASE("a node speaks for itself, to this process, in messages of ours") {
  bare_node at;
  auto here = at.system.node();
  auto of_stream = [&](uint64_t category) {
    auto id = caf::message_id{}.with_category(category).integer_value();
    return at.frame({message_type::direct_message, 0, 0, id, 3, published},
                    std::vector<caf::strong_actor_ptr>{},
                    caf::make_message(1.0));
  };
  std::vector<caf::byte_buffer> against{
    at.hello(at.node), // Again.
    at.frame({message_type::server_handshake, 0, 0, 1, 0, 0}, at.node),
    at.frame({message_type::routed_message, 0, 0, 0, 3, published}, at.node,
             at.other),
    at.about(message_type::monitor_message, published, at.other, here),
    at.about(message_type::monitor_message, published, at.node, at.other),
    at.about(message_type::down_message, 3, at.other, here),
    at.message(3, published, caf::link_atom_v, caf::strong_actor_ptr{}),
    at.message(3, published, caf::exit_msg{}),
    at.message(3, published, caf::down_msg{}),
    at.frame({message_type::direct_message, 0, 0, 0, 3, published},
             std::vector<caf::strong_actor_ptr>(2), caf::make_message(1.0)),
    of_stream(caf::message_id::upstream_message_category),
    of_stream(caf::message_id::downstream_message_category),
  };
  for (size_t i = 0; i < against.size(); ++i) {
    INFO(i);
    guard uut{at.system, at.given};
    put(uut, at.hello(at.node));
    CHECK_THROWS_AS(put(uut, against[i]), breach);
  }
  for (const auto& first :
       {at.message(3, published, 1.0), at.hello(here), at.hello({}),
        at.frame({message_type::heartbeat, 0, 0, 0, 0, 0})}) {
    guard uut{at.system, at.given};
    CHECK_THROWS_AS(put(uut, first), breach);
  }
}

TEST_CASE("a second connection of a node says nothing") {
  bare_node at;
  guard first{at.system, at.given};
  put(first, at.hello(at.node));
  {
    guard second{at.system, at.given};
    auto hello = at.hello(at.node);
    put(second, hello + at.message(3, published, 1.0));
    CHECK(passed(second) == hello);
  }
  passed(first);
  put(first, at.message(3, published, 1.0));
  CHECK(first.ready() > 0);
}

TEST_CASE("bytes that are no messages end the connection, whatever they are") {
  bare_node at;
  auto good = at.hello(at.node) +
              at.message(3, published, std::string{"text"}, uint64_t{5}) +
              at.about(message_type::monitor_message, published, at.node,
                       at.system.node());
  for (uint64_t seed = 1; seed <= 2000; ++seed) {
    INFO("seed " << seed);
    std::mt19937_64 random{seed};
    auto bytes = good;
    for (auto damages = 1 + random() % 4; damages > 0; --damages)
      bytes[random() % bytes.size()] = static_cast<caf::byte>(random());
    guard uut{at.system, at.given};
    try {
      put(uut, bytes, 1 + random() % 100);
    } catch (const breach& why) {
      CHECK(std::string{why.what()}.find('\n') == std::string::npos);
    }
    CHECK(uut.ready() <= bytes.size());
  }
}

namespace {

/// What a node hears that sends the same message again and again.
std::string end_of_flood(guard& uut, const caf::byte_buffer& bytes,
                         size_t most) {
  try {
    for (size_t i = 0; i < most; ++i) {
      put(uut, bytes);
      passed(uut);
    }
  } catch (const breach& why) {
    return why.what();
  }
  return "it is let";
}

} // namespace

TEST_CASE("a node sends only so many messages, hellos and handles") {
  bare_node at;
  guard uut{at.system, at.given};
  put(uut, at.hello(at.node));
  passed(uut);
  at.given->allow(at.node, secret);
  auto often = [&](const caf::byte_buffer& bytes, size_t most) {
    return end_of_flood(uut, bytes, most);
  };
  SECTION("messages") {
    CHECK(often(at.message(3, secret, 1.0), 60'000) == "it is let");
    CHECK(often(at.frame({message_type::heartbeat, 0, 0, 0, 0, 0}),
                5'000'000) == "more than 60000 messages a second");
  }
  SECTION("hellos") {
    auto hello = at.message(3, published, std::string{"hello"});
    CHECK(often(hello, 50) == "it is let");
    CHECK(often(hello, 1000) == "more than 10 hellos a second");
  }
  SECTION("handles") {
    auto gives = at.handle(secret, at.node, 9);
    CHECK(often(gives, 50) == "it is let");
    CHECK(often(gives, 1000) == "more than 10 messages with actors a second");
  }
}

TEST_CASE("a node hands out its own actors, and those it has from here") {
  bare_node at;
  auto here = at.system.node();
  guard uut{at.system, at.given};
  put(uut, at.hello(at.node));
  at.given->allow(at.node, secret);
  CHECK_NOTHROW(put(uut, at.handle(secret, at.node, 9)));
  CHECK_NOTHROW(put(uut, at.message(3, secret, caf::strong_actor_ptr{})));
  CHECK_THROWS_MATCHES(put(uut, at.handle(secret, at.other, 9)), breach,
                       MessageMatches(ContainsSubstring("of another node")));
  auto own = at.system.spawn([]() -> caf::behavior {
    return {[](int) {
    }};
  });
  auto ptr = caf::actor_cast<caf::strong_actor_ptr>(own);
  at.system.registry().put(own->id(), ptr);
  guard other{at.system, at.given};
  put(other, at.hello(at.other));
  at.given->allow(at.other, secret);
  CHECK_THROWS_MATCHES(put(other, at.handle(secret, here, own->id())), breach,
                       MessageMatches(ContainsSubstring("of this process")));
  caf::anon_send_exit(own, caf::exit_reason::kill);
}

namespace {

/// The bytes of so many errors, each in the one before, and what is in the
/// last.
template <class... Ts>
caf::byte_buffer nested_errors(size_t depth, const Ts&... innermost) {
  caf::byte_buffer out;
  caf::binary_serializer sink{nullptr, out};
  auto code = static_cast<uint8_t>(caf::sec::runtime_error);
  for (size_t i = 0; i < depth; ++i) {
    REQUIRE((sink.value(true) && sink.value(code) &&
             sink.value(caf::type_id_v<caf::sec>)));
    if (i + 1 < depth)
      REQUIRE(sink.apply(std::vector{caf::type_id_v<caf::error>}));
  }
  REQUIRE((sink.apply(innermost) && ...));
  return out;
}

} // namespace

TEST_CASE("no actor of a third node hides in an error, and errors in errors "
          "end") {
  bare_node at;
  auto sent = [&](const caf::byte_buffer& error, bool down) {
    guard uut{at.system, at.given};
    put(uut, at.hello(at.node));
    at.given->allow(at.node, secret);
    auto bytes =
      down ? at.about(message_type::down_message, 3, at.node, at.system.node())
           : at.message(3, secret, caf::error{});
    // An empty error is one byte, the last: a full one takes its place.
    bytes.pop_back();
    bytes.insert(bytes.end(), error.begin(), error.end());
    auto size = bytes.size() - caf::io::basp::header_size;
    for (size_t i = 0; i < 4; ++i)
      bytes[4 + i] = static_cast<caf::byte>(size >> (24 - 8 * i));
    put(uut, bytes);
  };
  auto none = std::vector<caf::type_id_t>{};
  auto handle = std::vector{caf::type_id_v<caf::strong_actor_ptr>};
  for (auto down : {false, true}) {
    CHECK_NOTHROW(sent(nested_errors(1, none), down));
    CHECK_NOTHROW(sent(nested_errors(500, none), down));
    CHECK_NOTHROW(
      sent(nested_errors(3, handle, caf::actor_id{9}, at.node), down));
    CHECK_THROWS_MATCHES(
      sent(nested_errors(3, handle, caf::actor_id{9}, at.other), down), breach,
      MessageMatches(ContainsSubstring("an actor of another node")));
    CHECK_THROWS_MATCHES(sent(nested_errors(100'000, none), down), breach,
                         MessageMatches(ContainsSubstring("8192 are allowed")));
  }
}

TEST_CASE("a hello is short, and no message has many values") {
  bare_node at;
  guard uut{at.system, at.given};
  put(uut, at.hello(at.node));
  at.given->allow(at.node, secret);
  std::string text(guard::most_of_hello, 'x');
  CHECK_NOTHROW(put(uut, at.message(3, secret, text)));
  CHECK_THROWS_MATCHES(
    put(uut, at.message(3, published, text)), breach,
    MessageMatches(ContainsSubstring("of which 262144 are allowed")));
  guard other{at.system, at.given};
  put(other, at.hello(at.other));
  CHECK_THROWS_MATCHES(
    put(other, at.message(3, published, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0,
                          9.0, 10.0, 11.0, 12.0, 13.0, 14.0, 15.0, 16.0, 17.0)),
    breach, MessageMatches(ContainsSubstring("a message with 17 values")));
}

TEST_CASE("what is rare may come in a burst and again later") {
  using namespace std::chrono_literals;
  rate_limit::clock::time_point now{100s};
  rate_limit uut{10, 3};
  for (auto left = 3; left > 0; --left)
    CHECK(uut.allows(now));
  CHECK_FALSE(uut.allows(now));
  CHECK_FALSE(uut.allows(now + 50ms));
  CHECK(uut.allows(now + 110ms));
  CHECK_FALSE(uut.allows(now + 120ms));
  for (auto left = 3; left > 0; --left)
    CHECK(uut.allows(now + 1h));
  CHECK_FALSE(uut.allows(now + 1h));
}
