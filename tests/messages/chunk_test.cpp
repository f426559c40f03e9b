#include "messages/interfaces.hpp"
#include "tests/support/wire.hpp"

#include <catch2/catch_test_macros.hpp>

#include <algorithm>
#include <cstring>
#include <random>

using namespace troupe;
using namespace troupe::test;

namespace {

/// `count` float32 of which every byte is random.
payload random_payload(uint64_t count, uint64_t seed) {
  payload_buffer memory{{element_type::float32, count}};
  std::mt19937_64 random{seed};
  for (auto& byte : memory.bytes())
    byte = static_cast<std::byte>(random());
  return std::move(memory).seal();
}

chunk piece_of(const payload& source, uint64_t offset, uint64_t size) {
  return {transfer_id{7}, offset, source, size, nullptr};
}

/// What stands before the bytes of a chunk.
caf::byte_buffer head_of_chunk(uint64_t size) {
  caf::byte_buffer out;
  caf::binary_serializer sink{nullptr, out};
  REQUIRE(sink.apply(uint64_t{1}));
  REQUIRE(sink.apply(uint64_t{0}));
  REQUIRE(sink.apply(size));
  return out;
}

} // namespace

TEST_CASE("a chunk's bytes come through the wire") {
  auto source = random_payload(1000, 3);
  auto copy = round_trip(piece_of(source, 400, 3000));
  CHECK(copy.transfer == transfer_id{7});
  CHECK(copy.offset == 400);
  CHECK(copy.size == 3000);
  CHECK(
    std::ranges::equal(copy.bytes(), source.host_bytes().subspan(400, 3000)));
  SECTION("and again when it is passed on") {
    CHECK(std::ranges::equal(round_trip(copy).bytes(), copy.bytes()));
  }
}

TEST_CASE("a chunk is its numbers and its bytes, nothing else") {
  auto source = random_payload(8, 3);
  auto bytes = to_wire(piece_of(source, 16, 4));
  REQUIRE(bytes.size() == 8 + 8 + 8 + 4);
  CHECK(hex(bytes).substr(0, 48) == "0000000000000007"
                                    "0000000000000010"
                                    "0000000000000004");
  CHECK(std::memcmp(bytes.data() + 24, source.host_bytes().data() + 16, 4) ==
        0);
}

TEST_CASE("a chunk that claims too many bytes is refused") {
  init_messages();
  SECTION("before memory is taken for them") {
    // Memory of this size cannot be had: taking it would throw.
    for (auto size : {max_chunk_bytes + 1, uint64_t{1} << 62, UINT64_MAX}) {
      auto bytes = head_of_chunk(size);
      CHECK_FALSE(from_wire<chunk>(bytes).has_value());
    }
  }
  SECTION("when they are not there") {
    auto bytes = head_of_chunk(64);
    bytes.resize(bytes.size() + 63);
    CHECK_FALSE(from_wire<chunk>(bytes).has_value());
    bytes.resize(bytes.size() + 1);
    CHECK(from_wire<chunk>(bytes).has_value());
  }
}

TEST_CASE("a chunk is shown by place and size, never by its numbers") {
  init_messages();
  auto text = caf::deep_to_string(piece_of(random_payload(4096, 5), 512, 8192));
  CHECK(text.find("512") != std::string::npos);
  CHECK(text.find("8192") != std::string::npos);
  CHECK(text.size() < 200);
}
