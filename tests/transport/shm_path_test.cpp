// What is particular to shared memory: who reads what, for how long, and what
// is not mapped.

#include "messages/transport/shm/shm_carrier.hpp"
#include "tests/support/payloads.hpp"

#include <catch2/catch_test_macros.hpp>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <random>

using namespace troupe;
using namespace troupe::test;
using namespace troupe::transport;

namespace {

constexpr payload_shape region_shape{element_type::float32, 5000};

struct wire {
  wire() {
    int both[2];
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, both) != 0)
      throw system_error("no socket pair");
    near.emplace(descriptor{both[0]});
    far.emplace(descriptor{both[1]});
  }

  std::optional<transport::socket> near;
  std::optional<transport::socket> far;
};

/// Both ends, as a worker and a server have them.
struct shared_pair {
  shared_pair() {
    wire line;
    near = make_path<shm_carrier>(std::move(*line.near),
                                  path_terms{region_shape}, workers, true);
    far = make_path<shm_carrier>(std::move(*line.far), path_terms{region_shape},
                                 servers, false);
  }

  /// Sends a tensor up and gives it as it arrives.
  payload push(uint64_t number, const payload& tensor) {
    near->send({frame_kind::push, transfer_id{number}, {}, tensor});
    return far->receive()->tensor;
  }

  std::shared_ptr<shared_memory> workers = std::make_shared<shared_memory>();
  std::shared_ptr<shared_memory> servers = std::make_shared<shared_memory>();
  path_ptr near;
  path_ptr far;
};

payload take_payload(payload_pool& pool, std::byte filling) {
  auto memory = pool.take_block();
  auto* data = memory.get();
  std::fill_n(data, region_shape.bytes(), filling);
  return {region_shape, std::move(memory), data};
}

/// A file of so many bytes, sealed or not.
descriptor make_file(uint64_t bytes, bool sealed) {
  descriptor out{memfd_create("test", MFD_CLOEXEC | MFD_ALLOW_SEALING)};
  REQUIRE(ftruncate(out.get(), static_cast<off_t>(bytes)) == 0);
  if (sealed)
    REQUIRE(fcntl(out.get(), F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW) == 0);
  return out;
}

/// What a server says to such a frame.
std::string head_refusal(const frame_head& head, const descriptor& file = {}) {
  wire line;
  auto server =
    make_path<shm_carrier>(std::move(*line.far), path_terms{region_shape},
                           std::make_shared<shared_memory>(), false);
  auto bytes = encode(head);
  iovec all[] = {{bytes.data(), bytes.size()}};
  std::span<iovec> parts{all};
  line.near->send(parts, true, file.get());
  try {
    server->receive();
    return {};
  } catch (const path_error& err) {
    return err.what();
  }
}

frame_head new_region_head() {
  frame_head out;
  out.kind = frame_kind::push;
  out.carried = carriage::new_region;
  out.shape = region_shape;
  out.region = 1;
  return out;
}

} // namespace

// -- what is shared -----------------------------------------------------------

TEST_CASE("a tensor in shared memory is read where it lies") {
  shared_pair it;
  payload_pool pool{region_shape.bytes(), it.workers};
  for (uint64_t i = 1; i <= 3; ++i) {
    auto memory = pool.take_block();
    auto* data = memory.get();
    auto seen = it.push(i, payload{region_shape, memory, data});
    CHECK(seen.host_bytes().data() != data);
    data[7] = std::byte{42}; // No real sender does this.
    CHECK(seen.host_bytes()[7] == std::byte{42});
    data[7] = std::byte{43};
    CHECK(seen.host_bytes()[7] == std::byte{43});
  }
}

TEST_CASE("a tensor that lies elsewhere is copied once, into memory that is "
          "used again") {
  shared_pair it;
  const std::byte* place = nullptr;
  for (uint64_t i = 1; i <= 5; ++i) {
    auto tensor = random_payload(region_shape.count, i);
    auto seen = it.push(i, tensor);
    CHECK(same_bytes(seen, tensor));
    if (place != nullptr)
      CHECK(seen.host_bytes().data() == place);
    place = seen.host_bytes().data();
    seen = {};
    it.far->send_let_gos();
    CHECK(it.near->receive()->kind == frame_kind::let_go);
  }
}

// -- for how long -------------------------------------------------------------

TEST_CASE("what is lent is held until the other end lets go") {
  shared_pair it;
  payload_pool pool{region_shape.bytes(), it.workers};
  auto seen = it.push(1, take_payload(pool, std::byte{1}));
  CHECK(pool.stats().in_use == 1);
  auto other = it.push(2, take_payload(pool, std::byte{2}));
  CHECK(pool.stats().allocated == 2);
  seen = {};
  CHECK(pool.stats().in_use == 2); // The other end has not let go yet.
  it.far->send({frame_kind::release, transfer_id{9}, {}, {}});
  it.near->receive();
  CHECK(pool.stats().in_use == 1);
  CHECK(other.host_bytes()[0] == std::byte{2});
}

TEST_CASE("gradients that are lent when the path ends are never written to "
          "again, weights are") {
  shared_pair it;
  payload_pool gradients{region_shape.bytes(), it.workers};
  payload_pool weights{region_shape.bytes(), it.servers};
  auto gradient = it.push(1, take_payload(gradients, std::byte{1}));
  it.far->send({frame_kind::release,
                transfer_id{1},
                {},
                take_payload(weights, std::byte{2})});
  auto version = it.near->receive()->tensor;
  it.near = nullptr;
  it.far = nullptr;
  CHECK(gradients.stats().free == 0);
  CHECK(gradients.stats().in_use == 0);
  CHECK(weights.stats().free == 1);
  take_payload(gradients, std::byte{3});
  CHECK(gradient.host_bytes()[0] == std::byte{1});
  CHECK(version.host_bytes()[0] == std::byte{2});
  CHECK_FALSE(it.workers->find(gradient.host_bytes().data(), 1));
}

TEST_CASE("a region is gone with its last holder") {
  auto memory = std::make_shared<shared_memory>();
  auto block = memory->take_block(10'000);
  auto* data = block.get();
  auto where = memory->find(data + 100, 1000);
  REQUIRE(where);
  CHECK(where->offset == 100);
  CHECK(where->region->memory.size() == 12'288);
  CHECK_FALSE(memory->find(data + 100, 12'289 - 100));
  CHECK_FALSE(memory->find(data - 1, 1));
  std::weak_ptr<const shared_region> region = where->region;
  memory = nullptr;
  where.reset();
  CHECK_FALSE(region.expired());
  block = nullptr;
  CHECK(region.expired());
}

TEST_CASE("a peer's region can be shown to others, if its file is kept") {
  shared_pair it;
  payload_pool pool{region_shape.bytes(), it.workers};
  SECTION("it is not") {
    auto there = it.push(1, take_payload(pool, std::byte{1}));
    CHECK_FALSE(it.servers->find_foreign(there.host_bytes().data(), 1));
  }
  SECTION("it is") {
    it.servers->keep_foreign_files();
    auto there = it.push(1, take_payload(pool, std::byte{1}));
    auto bytes = there.host_bytes();
    CHECK_FALSE(it.servers->find(bytes.data(), 1));
    auto where = it.servers->find_foreign(bytes.data() + 100, 1000);
    REQUIRE(where);
    CHECK(where->offset == 100);
    CHECK_FALSE(it.servers->find_foreign(bytes.data(), 20'481));
    mapping again{where->region->file.get(), where->region->memory.size(),
                  false};
    CHECK(again.data()[100] == std::byte{1});
    std::weak_ptr<const shared_region> region = where->region;
    where.reset();
    it.far = nullptr;
    CHECK_FALSE(region.expired()); // The tensor is in use.
    there = {};
    CHECK(region.expired());
    CHECK_FALSE(it.servers->find_foreign(bytes.data(), 1));
  }
}

// -- what is refused ----------------------------------------------------------

TEST_CASE("a region that could change its size, or is none, is not mapped") {
  auto head = new_region_head();
  CHECK(head_refusal(head, make_file(20'480, false)) ==
        "the peer's shared memory is not sealed");
  CHECK(head_refusal(head, make_file(uint64_t{1} << 40, true)) ==
        "the peer's shared memory has 1099511627776 bytes, and a tensor 20000");
  CHECK(head_refusal(head, make_file(0, true)).find("has 0 bytes") !=
        std::string::npos);
  CHECK(head_refusal(head, descriptor{open("/dev/null", O_RDONLY)}) ==
        "the peer's shared memory is not sealed");
  CHECK(head_refusal(head) == "a region without its file, or too many of them");
  CHECK(head_refusal(head, make_file(20'480, true)).empty());
}

TEST_CASE("a tensor outside of its region is refused") {
  auto head = new_region_head();
  CHECK(head_refusal(head, make_file(4096, true)) ==
        "a tensor that reaches past its region");
  head.offset = 512;
  CHECK(head_refusal(head, make_file(20'480, true)) ==
        "a tensor that reaches past its region");
  head.offset = UINT64_MAX - 63;
  CHECK(head_refusal(head, make_file(20'480, true)) ==
        "a tensor that reaches past its region");
  head.offset = 2;
  CHECK(head_refusal(head, make_file(20'480, true)) ==
        "a tensor that reaches past its region");
  head.offset = 64;
  CHECK(head_refusal(head, make_file(20'480, true)).empty());
  head.carried = carriage::region;
  CHECK(head_refusal(head) == "a tensor in a region that nobody has shown");
  head.carried = carriage::follows;
  CHECK(head_refusal(head) == "a tensor's bytes on a path that shares memory");
  for (auto strange : {carriage::ahead, carriage::device}) {
    head.carried = strange;
    CHECK(head_refusal(head) ==
          "a tensor that comes no way that this path has");
  }
  head.carried = carriage::none;
  CHECK(head_refusal(head) == "a tensor of the right size without its bytes");
}

TEST_CASE("bytes that are no frames map nothing, whatever they are") {
  for (uint64_t seed = 1; seed <= 300; ++seed) {
    INFO("seed " << seed);
    std::mt19937_64 random{seed};
    auto bytes = encode(new_region_head());
    for (auto damages = 1 + random() % 3; damages > 0; --damages)
      bytes[random() % bytes.size()] = static_cast<std::byte>(random());
    wire line;
    auto server =
      make_path<shm_carrier>(std::move(*line.far), path_terms{region_shape},
                             std::make_shared<shared_memory>(), false);
    auto file = make_file(20'480, random() % 2 == 0);
    iovec all[] = {{bytes.data(), bytes.size()}};
    std::span<iovec> parts{all};
    line.near->send(parts, true, file.get());
    line.near->shutdown();
    try {
      while (server->receive())
        continue;
    } catch (const path_error& err) {
      CHECK(std::string{err.what()}.find('\n') == std::string::npos);
    }
  }
}
