// The ends of a path without actors: malformed, slow and lost peers.

#include "messages/transport/stream/stream_carrier.hpp"
#include "messages/transport/wire/descriptor_limit.hpp"
#include "messages/transport/wire/meeting.hpp"
#include "tests/support/payloads.hpp"
#include "tests/support/sockets.hpp"

#include <arpa/inet.h>
#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <netinet/in.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <future>
#include <random>
#include <thread>

using namespace troupe;
using namespace troupe::test;
using namespace troupe::transport;

namespace {

constexpr payload_shape path_shape{element_type::float32, 1000};

struct path_pair {
  explicit path_pair(payload_shape expected = path_shape,
                     size_t most = SIZE_MAX) {
    auto [left, right] = socket_pair();
    near =
      make_path<stream_carrier>(std::move(left), path_terms{expected, most});
    far =
      make_path<stream_carrier>(std::move(right), path_terms{expected, most});
  }

  path_ptr near;
  path_ptr far;
};

uint64_t resident_bytes() {
  std::ifstream in{"/proc/self/statm"};
  uint64_t all = 0, resident = 0;
  in >> all >> resident;
  return resident * 4096;
}

/// The line that ends the reading of `bytes`, after any good frames; "closed"
/// when none does.
std::string end_of(const std::vector<std::byte>& bytes, payload_shape expected,
                   size_t& frames) {
  auto [left, right] = socket_pair();
  auto reader =
    make_path<stream_carrier>(std::move(right), path_terms{expected, 4});
  std::thread writer{[&bytes, line = std::move(left)]() mutable {
    iovec all[] = {{const_cast<std::byte*>(bytes.data()), bytes.size()}};
    std::span<iovec> parts{all};
    try {
      line.send(parts, true);
    } catch (const path_error&) {
      // The reader has had enough.
    }
    line.shutdown();
  }};
  std::string out = "closed";
  try {
    while (reader->receive())
      ++frames;
  } catch (const path_error& err) {
    out = err.what();
  }
  reader->close(out);
  writer.join();
  return out;
}

std::vector<std::byte> good_frames(std::mt19937_64& random) {
  std::vector<std::byte> out;
  for (auto left = 1 + random() % 3; left > 0; --left) {
    frame_head head;
    head.kind = frame_kind{static_cast<uint8_t>(1 + random() % 23)};
    head.request = transfer_id{random()};
    head.header_bytes = static_cast<uint32_t>(random() % 100);
    head.let_gos = static_cast<uint32_t>(random() % 3);
    head.shape = path_shape;
    head.carried = random() % 2 ? carriage::follows : carriage::none;
    auto bytes = encode(head);
    out.insert(out.end(), bytes.begin(), bytes.end());
    auto more = head.header_bytes + 8 * head.let_gos +
                (head.carried == carriage::follows ? path_shape.bytes() : 0);
    for (uint64_t i = 0; i < more; ++i)
      out.push_back(static_cast<std::byte>(random()));
  }
  return out;
}

} // namespace

// -- what does not belong on a path -------------------------------------------

TEST_CASE("bytes that are no frames end the path with one line, whatever they "
          "are") {
  auto before = resident_bytes();
  for (uint64_t seed = 1; seed <= 400; ++seed) {
    INFO("seed " << seed);
    std::mt19937_64 random{seed};
    auto bytes = good_frames(random);
    for (auto damages = 1 + random() % 4; damages > 0; --damages)
      bytes[random() % std::min<size_t>(bytes.size(), 60)] =
        static_cast<std::byte>(random());
    if (random() % 3 == 0)
      bytes.resize(random() % bytes.size());
    size_t frames = 0;
    auto line = end_of(bytes, path_shape, frames);
    CHECK(!line.empty());
    CHECK(line.find('\n') == std::string::npos);
    CHECK(frames <= 3);
  }
  CHECK(resident_bytes() < before + (64u << 20));
}

TEST_CASE("no memory is taken for a tensor that is not the model's") {
  frame_head head;
  head.kind = frame_kind::push;
  head.carried = carriage::follows;
  head.shape = {element_type::float32, uint64_t{1} << 50};
  auto first = encode(head);
  std::vector<std::byte> bytes{first.begin(), first.end()};
  size_t frames = 0;
  CHECK(end_of(bytes, path_shape, frames) ==
        "a tensor of another size than the model's");
  head.shape = path_shape;
  head.carried = carriage::region;
  first = encode(head);
  bytes.assign(first.begin(), first.end());
  CHECK(end_of(bytes, path_shape, frames) ==
        "a tensor in memory that this path does not share");
  CHECK(frames == 0);
}

TEST_CASE("a tensor of the right size that brings no bytes ends the path") {
  auto ends = [](frame_kind kind, payload_shape shape, size_t& frames) {
    frame_head head;
    head.kind = kind;
    head.shape = shape;
    auto first = encode(head);
    return end_of({first.begin(), first.end()}, path_shape, frames);
  };
  for (auto kind : {frame_kind::push, frame_kind::release, frame_kind::due}) {
    size_t frames = 0;
    CHECK(ends(kind, path_shape, frames) ==
          "a tensor of the right size without its bytes");
    CHECK(frames == 0);
    // A gradient of another size goes to whoever refuses it, and an empty one
    // is complete.
    CHECK(ends(kind, {path_shape.type, path_shape.count - 1}, frames) ==
          "closed");
    CHECK(ends(kind, {}, frames) == "closed");
    CHECK(frames == 2);
  }
  size_t frames = 0;
  CHECK(ends(frame_kind::call, path_shape, frames) == "closed");
  CHECK(frames == 1);
}

TEST_CASE("a peer that sends more tensors than it may loses its path") {
  path_pair it{path_shape, 2};
  auto tensor = random_payload(path_shape.count, 1);
  for (uint64_t i = 1; i <= 3; ++i)
    it.near->send({frame_kind::push, transfer_id{i}, {}, tensor});
  auto first = it.far->receive();
  {
    auto second = it.far->receive();
    CHECK(same_bytes(second->tensor, tensor));
  }
  auto third = it.far->receive(); // The second was let go of.
  it.near->send({frame_kind::push, transfer_id{4}, {}, tensor});
  CHECK_THROWS_AS(it.far->receive(), path_error);
}

// -- who is slow, and who goes ------------------------------------------------

TEST_CASE("what a slow receiver has not read costs no memory") {
  constexpr payload_shape large{element_type::float32, 425'000}; // 1.7 MB
  path_pair it{large};
  auto tensor = random_payload(large.count, 1);
  auto before = resident_bytes();
  auto waits = false;
  for (uint64_t i = 1; i <= 64; ++i)
    waits |= it.near->send({frame_kind::push, transfer_id{i}, {}, tensor});
  CHECK(waits);
  std::thread writer{[&] {
    it.near->write_rest();
  }};
  std::this_thread::sleep_for(std::chrono::milliseconds(100));
  CHECK(resident_bytes() < before + (16u << 20));
  for (uint64_t i = 1; i <= 64; ++i) {
    auto next = it.far->receive();
    REQUIRE(next);
    CHECK(next->request == transfer_id{i});
    CHECK(same_bytes(next->tensor, tensor));
  }
  writer.join();
  CHECK(resident_bytes() < before + (16u << 20));
}

TEST_CASE("closing a path wakes its reader and its writer") {
  constexpr payload_shape large{element_type::float32, 8 << 20};
  path_pair it{large};
  auto got = true;
  std::thread reader{[&] {
    got = it.near->receive().has_value();
  }};
  REQUIRE(it.near->send(
    {frame_kind::push, transfer_id{1}, {}, random_payload(large.count, 1)}));
  std::thread writer{[&] {
    it.near->write_rest();
  }};
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  SECTION("here") {
    it.near->close("enough");
  }
  SECTION("there") {
    it.far->close("enough");
  }
  reader.join();
  writer.join();
  CHECK_FALSE(got);
  CHECK_FALSE(it.near->why_closed().empty());
  CHECK_FALSE(it.near->send({frame_kind::pull, transfer_id{2}, {}, {}}));
}

TEST_CASE("what is let go of goes along with the next frame") {
  path_pair it;
  int calls = 0;
  it.near->let_gos().on_entry([&] { ++calls; });
  CHECK_FALSE(it.near->send_let_gos()); // There is nothing to say.
  for (uint64_t i = 0; i < max_let_gos + 1; ++i)
    it.near->let_gos().enter(i);
  CHECK(calls == 1);
  it.near->send({frame_kind::pull, transfer_id{1}, {}, {}});
  it.near->send_let_gos();
  it.near->send_let_gos(); // Nothing again.
  it.near->close("");
  CHECK(it.far->receive()->kind == frame_kind::pull);
  CHECK(it.far->receive()->kind == frame_kind::let_go);
  CHECK_FALSE(it.far->receive());
}
