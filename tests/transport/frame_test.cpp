// Frames as bytes.

#include "messages/transport/wire/frame.hpp"
#include "tests/support/wire.hpp"

#include <catch2/catch_test_macros.hpp>

#include <random>

using namespace troupe;
using namespace troupe::test;
using namespace troupe::transport;

namespace {

frame_head sample_head() {
  frame_head out;
  out.kind = frame_kind::release;
  out.carried = carriage::new_region;
  out.shape = {element_type::float64, 0x0102030405060708};
  out.request = transfer_id{9};
  out.header_bytes = 77;
  out.let_gos = 3;
  out.region = 5;
  out.offset = 4096;
  return out;
}

std::string hex_of(const head_bytes& bytes) {
  caf::byte_buffer copy(bytes.size());
  std::memcpy(copy.data(), bytes.data(), bytes.size());
  return hex(copy);
}

/// The line that refuses the head, or nothing.
std::string decode_refusal(head_bytes bytes, size_t at, uint8_t value) {
  bytes[at] = static_cast<std::byte>(value);
  try {
    decode(bytes);
    return {};
  } catch (const path_error& err) {
    return err.what();
  }
}

} // namespace

TEST_CASE("a head of a frame has these bytes") {
  CHECK(hex_of(encode(sample_head())) == "54525046"         // mark
                                         "05030200"         // what
                                         "0807060504030201" // count
                                         "0900000000000000" // request
                                         "4d000000"         // header
                                         "03000000"         // let go
                                         "0500000000000000" // region
                                         "0010000000000000");
}

TEST_CASE("kinds of frames and carriages have these numbers") {
  CHECK(static_cast<int>(frame_kind::push) == 1);
  CHECK(static_cast<int>(frame_kind::pull) == 2);
  CHECK(static_cast<int>(frame_kind::watch) == 3);
  CHECK(static_cast<int>(frame_kind::score) == 4);
  CHECK(static_cast<int>(frame_kind::release) == 5);
  CHECK(static_cast<int>(frame_kind::due) == 6);
  CHECK(static_cast<int>(frame_kind::refusal) == 7);
  CHECK(static_cast<int>(frame_kind::let_go) == 8);
  CHECK(static_cast<int>(frame_kind::piece) == 9);
  CHECK(static_cast<int>(frame_kind::meet) == 10);
  CHECK(static_cast<int>(frame_kind::call) == 11);
  CHECK(static_cast<int>(frame_kind::offer) == 16);
  CHECK(static_cast<int>(frame_kind::gathered) == 19);
  CHECK(static_cast<int>(frame_kind::forward) == 20);
  CHECK(static_cast<int>(frame_kind::backward) == 21);
  CHECK(static_cast<int>(frame_kind::passed) == 22);
  CHECK(static_cast<int>(frame_kind::cancel) == 23);
  CHECK(static_cast<int>(frame_kind::read) == 24);
  CHECK(static_cast<int>(carriage::new_region) == 3);
  CHECK(static_cast<int>(carriage::ahead) == 4);
  CHECK(static_cast<int>(carriage::device) == 5);
}

TEST_CASE("a head is read as it was written") {
  std::mt19937_64 random{1};
  for (int i = 0; i < 1000; ++i) {
    frame_head head;
    head.kind = frame_kind{static_cast<uint8_t>(1 + random() % 11)};
    head.carried = carriage{static_cast<uint8_t>(random() % 6)};
    head.shape = {random() % 2 ? element_type::float32 : element_type::float64,
                  random() >> 4};
    head.request = transfer_id{random()};
    head.header_bytes = static_cast<uint32_t>(random() % max_header_bytes);
    head.let_gos = static_cast<uint32_t>(random() % max_let_gos);
    head.region = random();
    head.offset = random();
    if (head.shape.count > UINT64_MAX / 16)
      continue;
    CHECK(decode(encode(head)) == head);
  }
}

TEST_CASE("a head that is none of ours is refused with a line") {
  auto bytes = encode(sample_head());
  CHECK(decode_refusal(bytes, 0, 0) == "what arrives is no frame");
  CHECK(decode_refusal(bytes, 4, 0) == "a frame with an unknown kind");
  CHECK(decode_refusal(bytes, 4, 12) == "a frame with an unknown kind");
  CHECK(decode_refusal(bytes, 4, 18) == "a frame with an unknown kind");
  CHECK(decode_refusal(bytes, 4, 25) == "a frame with an unknown kind");
  CHECK(decode_refusal(bytes, 5, 6) == "a frame with an unknown carriage");
  CHECK(decode_refusal(bytes, 6, 4) == "a frame with an unknown element type");
  CHECK(decode_refusal(bytes, 7, 1) == "a frame with an unknown filling");
  CHECK(decode_refusal(bytes, 15, 255) ==
        "a frame with a tensor larger than any");
  CHECK(decode_refusal(bytes, 27, 1) ==
        "a frame with 16777293 bytes of header, "
        "more than the 65536 allowed");
  CHECK(decode_refusal(bytes, 30, 1) ==
        "a frame with 65539 numbers, more than the 1024 allowed");
}

TEST_CASE("a header is read as it was written, and nothing else is") {
  auto bytes = write_header(refusal{errc::not_finite, "worker 1: NaN"});
  auto same = read_header<refusal>(bytes);
  CHECK(same.code == errc::not_finite);
  CHECK(same.text == "worker 1: NaN");
  bytes.push_back(caf::byte{0});
  CHECK_THROWS_AS(read_header<refusal>(bytes), path_error);
  bytes.resize(bytes.size() - 2);
  CHECK_THROWS_AS(read_header<refusal>(bytes), path_error);
}
