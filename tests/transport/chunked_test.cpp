#include "messages/transport/chunked/chunked.hpp"

#include <catch2/catch_test_macros.hpp>

#include <algorithm>
#include <deque>
#include <random>
#include <vector>

using namespace troupe;
using namespace troupe::transport;

namespace {

constexpr transfer_id transfer{42};

payload payload_from(payload_shape shape, std::mt19937_64& random) {
  payload_buffer memory{shape};
  for (auto& byte : memory.bytes())
    byte = static_cast<std::byte>(random());
  return std::move(memory).seal();
}

payload floats(uint64_t count, uint64_t seed = 1) {
  std::mt19937_64 random{seed};
  return payload_from({element_type::float32, count}, random);
}

/// As it comes out of a connection: in memory of its own.
chunk delivered(const chunk& piece) {
  auto memory = std::make_shared<std::byte[]>(piece.size);
  std::ranges::copy(piece.bytes(), memory.get());
  return {piece.transfer, piece.offset, {}, piece.size, std::move(memory)};
}

chunk piece_at(const payload& source, uint64_t offset, uint64_t size) {
  return {transfer, offset, source, size, nullptr};
}

uint64_t between(uint64_t low, uint64_t high, std::mt19937_64& random) {
  return std::uniform_int_distribution<uint64_t>{low, high}(random);
}

/// Moves `source` from one end to the other, pieces and credit delayed at
/// random, and checks every promise on the way.
payload transfer_all(const payload& source, uint64_t chunk_bytes,
                     uint64_t window_bytes, std::mt19937_64& random) {
  chunk_sender sender{transfer, source, chunk_bytes, window_bytes};
  chunk_receiver receiver{source.shape()};
  std::deque<chunk> pieces;
  std::deque<uint64_t> credits;
  uint64_t sent = 0;
  uint64_t acknowledged = 0;
  auto total = source.shape().bytes();
  auto pump = [&] {
    while (auto piece = sender.next()) {
      REQUIRE(piece->transfer == transfer);
      REQUIRE(piece->offset == sent);
      REQUIRE(piece->size > 0);
      REQUIRE(piece->size <= chunk_bytes);
      sent += piece->size;
      REQUIRE(sent - acknowledged <= window_bytes);
      pieces.push_back(*piece);
    }
  };
  pump();
  while (!sender.done()) {
    // Nothing on the way and not done: it would wait for ever.
    REQUIRE((!pieces.empty() || !credits.empty()));
    if (!pieces.empty() && (credits.empty() || random() % 2 == 0)) {
      REQUIRE(receiver.accept(random() % 2 ? pieces.front()
                                           : delivered(pieces.front())));
      pieces.pop_front();
      credits.push_back(receiver.received());
    } else {
      acknowledged = credits.front();
      credits.pop_front();
      REQUIRE(sender.credit(acknowledged));
      pump();
    }
  }
  REQUIRE(sent == total);
  REQUIRE(receiver.complete());
  REQUIRE_FALSE(sender.next());
  return std::move(receiver).take_payload();
}

void check_transfer(const payload& source, uint64_t chunk_bytes,
                    uint64_t window_bytes, std::mt19937_64& random) {
  INFO("bytes " << source.shape().bytes() << ", chunk " << chunk_bytes
                << ", window " << window_bytes);
  auto copy = transfer_all(source, chunk_bytes, window_bytes, random);
  CHECK(copy.shape() == source.shape());
  CHECK(std::ranges::equal(copy.host_bytes(), source.host_bytes()));
}

} // namespace

TEST_CASE("a payload of any size arrives whole, with any chunk and window") {
  std::mt19937_64 random{20};
  for (int i = 0; i < 400; ++i) {
    payload_shape shape{random() % 2 ? element_type::float32
                                     : element_type::float64,
                        between(0, 700, random)};
    check_transfer(payload_from(shape, random), between(1, 1200, random),
                   between(1, 5000, random), random);
  }
}

TEST_CASE("large payloads arrive whole with the usual chunk and window") {
  std::mt19937_64 random{21};
  constexpr auto mib = 1u << 20;
  for (uint64_t bytes : {mib - 4, mib, mib + 4, 4 * mib, 5 * mib + 8})
    check_transfer(payload_from({element_type::float32, bytes / 4}, random),
                   default_chunk_bytes, default_window_bytes, random);
}

TEST_CASE("the sender does not copy, and stops when the window is full") {
  auto source = floats(4 << 20); // 16 MiB
  chunk_sender sender{transfer, source};
  for (uint64_t i = 0; i < 4; ++i) {
    auto piece = sender.next();
    REQUIRE(piece);
    CHECK(piece->size == default_chunk_bytes);
    CHECK(piece->bytes().data() ==
          source.host_bytes().data() + i * default_chunk_bytes);
  }
  CHECK_FALSE(sender.next());
  CHECK(sender.credit(default_chunk_bytes - 1));
  CHECK_FALSE(sender.next()); // No piece is cut short by the window.
  CHECK(sender.credit(default_chunk_bytes));
  CHECK(sender.next()->offset == 4 * default_chunk_bytes);
  CHECK_FALSE(sender.next());
}

TEST_CASE("a window smaller than a chunk makes the chunks smaller") {
  chunk_sender sender{transfer, floats(100), 64, 32};
  CHECK(sender.next()->size == 32);
  CHECK_FALSE(sender.next());
  CHECK(sender.credit(32));
  CHECK(sender.next()->offset == 32);
}

TEST_CASE("impossible credit is refused") {
  chunk_sender sender{transfer, floats(100), 40, 80};
  CHECK_FALSE(sender.credit(1)); // Nothing was sent.
  REQUIRE(sender.next());
  CHECK_FALSE(sender.credit(41));
  CHECK(sender.credit(40));
  CHECK_FALSE(sender.credit(39)); // It said 40 before.
  CHECK(sender.credit(40));
  CHECK_FALSE(sender.credit(UINT64_MAX));
  CHECK(sender.next()->offset == 40); // What was refused changed nothing.
}

TEST_CASE("an empty payload is done before it begins") {
  chunk_sender sender{transfer, floats(0)};
  CHECK(sender.done());
  CHECK_FALSE(sender.next());
  chunk_receiver receiver{{element_type::float32, 0}};
  CHECK(receiver.complete());
  auto taken = std::move(receiver).take_payload();
  CHECK(taken.host_bytes().empty());
}

TEST_CASE("a piece out of place is refused and changes nothing") {
  auto source = floats(100);
  chunk_receiver receiver{source.shape()};
  REQUIRE(receiver.accept(piece_at(source, 0, 100)));
  SECTION("it does not follow the one before") {
    CHECK_FALSE(receiver.accept(piece_at(source, 104, 100)));
    CHECK_FALSE(receiver.accept(piece_at(source, 96, 100)));
  }
  SECTION("it came before") {
    CHECK_FALSE(receiver.accept(piece_at(source, 0, 100)));
  }
  SECTION("it reaches past the end") {
    auto longer = floats(200);
    CHECK_FALSE(receiver.accept(piece_at(longer, 100, 301)));
  }
  SECTION("it is empty") {
    CHECK_FALSE(receiver.accept(piece_at(source, 100, 0)));
  }
  CHECK(receiver.received() == 100);
  CHECK_FALSE(receiver.complete());
  REQUIRE(receiver.accept(piece_at(source, 100, 300)));
  CHECK(receiver.complete());
  CHECK_FALSE(receiver.accept(piece_at(source, 400, 0)));
  auto taken = std::move(receiver).take_payload();
  CHECK(std::ranges::equal(taken.host_bytes(), source.host_bytes()));
}
