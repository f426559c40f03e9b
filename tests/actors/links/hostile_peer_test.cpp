// Peers that know the protocol and break it: random histories of frames and
// messages that are right but for some of their parts. Whatever they send, the
// server keeps serving a worker that plays by the rules. Under a sanitizer, no
// byte is read that is not there.

#include "actors/links/framed_gateway.hpp"
#include "actors/links/gateway.hpp"
#include "actors/links/path_channel.hpp"
#include "messages/transport/shm/shm_carrier.hpp"
#include "messages/transport/stream/stream_carrier.hpp"
#include "tests/support/hostile.hpp"
#include "tests/support/metrics.hpp"
#include "tests/support/server_fixture.hpp"
#include "tests/support/sockets.hpp"

#include <catch2/catch_test_macros.hpp>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <thread>

using namespace troupe;
using namespace troupe::test;
using namespace troupe::transport;

namespace {

constexpr worker_id hostile{0};
constexpr worker_id good{1};

/// A server with a worker that plays by the rules and one that does not.
struct server_under_attack : server_fixture {
  server_under_attack() {
    settings.training.network = "mnist_net";
    settings.policy.name = "async";
    samples = 100'000;
    open(2);
    shape = players.at(good).asks->get<payload>().shape();
    gateway = actors.make<gateway_actor, gateway_state>(
      gateway_parts{lead, coordinator.handle, shape});
    leases = players.at(hostile).leases;
  }

  /// A header that would do, but for some of its parts.
  push_header next_header(dice& random) {
    push_header out;
    sent = sent.next();
    out.id = {hostile, life_number{1}, sent};
    out.server = life;
    out.from = leases[random() % leases.size()].id;
    out.samples = settings.training.batch_size;
    out.loss = 1;
    out.request = sent;
    if (one_in(random, 6)) // Anybody but the good one.
      out.id.worker = worker_id{static_cast<uint32_t>(2 + random())};
    if (one_in(random, 6))
      out.id.seq = sequence{odd_number(random, sent.value)};
    if (one_in(random, 6))
      out.from = lease_id{odd_number(random, 3)};
    if (one_in(random, 6))
      out.samples = odd_number(random, out.samples);
    if (one_in(random, 6))
      out.computed_on = version{odd_number(random, 1)};
    if (one_in(random, 6))
      out.server = life_number{static_cast<uint32_t>(random() % 3)};
    return out;
  }

  payload_shape any_shape(dice& random) {
    if (!one_in(random, 3))
      return shape;
    const element_type types[] = {element_type::float32, element_type::float64,
                                  element_type::byte};
    return {any_of(random, types), odd_number(random, shape.count)};
  }

  /// Finite or not.
  std::vector<std::byte> numbers(dice& random, uint64_t bytes) {
    std::vector<std::byte> out(bytes);
    if (one_in(random, 3))
      for (auto& byte : out)
        byte = static_cast<std::byte>(random());
    return out;
  }

  /// Whether the good worker is served as if nothing had happened.
  void check_serves() {
    REQUIRE(actors.alive(lead));
    REQUIRE(recorder->finished.empty());
    auto& one = players.at(good);
    auto answer =
      push(server_fixture::next_header(good), constant_payload(shape.count, 0));
    REQUIRE(answer->values);
    CHECK(answer->get<payload>().shape() == shape);
    CHECK(answer->get<payload>());
    one.asks = answer;
    settle(good);
  }

  payload_shape shape;
  gateway_actor gateway;
  std::vector<lease> leases; ///< Of the hostile one.
  sequence sent{0};
};

// -- frames -------------------------------------------------------------------

/// Bytes on their way, with a file that goes along.
struct parcel {
  std::vector<std::byte> bytes;
  descriptor file;
};

descriptor make_region(dice& random, uint64_t bytes) {
  descriptor out{memfd_create("hostile", MFD_CLOEXEC | MFD_ALLOW_SEALING)};
  if (one_in(random, 4))
    bytes = odd_number(random, bytes) % (4 * bytes + 1);
  REQUIRE(ftruncate(out.get(), static_cast<off_t>(bytes)) == 0);
  if (!one_in(random, 6))
    fcntl(out.get(), F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW);
  return out;
}

caf::byte_buffer header_of(server_under_attack& on, dice& random,
                           frame_kind kind) {
  caf::byte_buffer out;
  if (kind == frame_kind::pull)
    out = write_header(pull_header{hostile, life_number{1}, on.life,
                                   lease_id{odd_number(random, 2)},
                                   on.sent = on.sent.next()});
  else if (kind == frame_kind::watch)
    out = write_header(
      watch_request{version{odd_number(random, 2)}, one_in(random, 4)});
  else if (kind == frame_kind::score)
    out = write_header(score{version{odd_number(random, 1)},
                             testing::found(0.5), random(), 0.1});
  else
    out = write_header(on.next_header(random));
  if (one_in(random, 12))
    out.resize(random() % 200);
  return out;
}

parcel any_frame(server_under_attack& on, dice& random, bool shares_memory) {
  const frame_kind likely[] = {frame_kind::push,   frame_kind::pull,
                               frame_kind::watch,  frame_kind::score,
                               frame_kind::let_go, frame_kind::piece};
  const carriage ways[] = {carriage::none,   carriage::follows,
                           carriage::region, carriage::new_region,
                           carriage::ahead,  carriage::device};
  frame_head head;
  head.kind = frame_kind::push;
  if (one_in(random, 2))
    head.kind = any_of(random, likely);
  if (one_in(random, 12))
    head.kind = frame_kind{static_cast<uint8_t>(1 + random() % 19)};
  head.carried = shares_memory ? carriage::new_region : carriage::follows;
  if (one_in(random, 3))
    head.carried = any_of(random, ways);
  head.shape = on.any_shape(random);
  head.request = transfer_id{one_in(random, 8) ? random() : on.sent.value};
  head.region = random() % 3;
  if (one_in(random, 4))
    head.offset = odd_number(random, on.shape.bytes()) & ~uint64_t{63};
  if (one_in(random, 16))
    head.offset = odd_number(random, on.shape.bytes());
  auto header = header_of(on, random, head.kind);
  head.header_bytes = static_cast<uint32_t>(header.size());
  head.let_gos = static_cast<uint32_t>(random() % 3);
  parcel out;
  auto first = encode(head);
  out.bytes.assign(first.begin(), first.end());
  for (uint32_t i = 0; i < head.let_gos; ++i) {
    std::array<std::byte, 8> number;
    put_number(number.data(), random() % 4);
    out.bytes.insert(out.bytes.end(), number.begin(), number.end());
  }
  for (auto byte : header)
    out.bytes.push_back(static_cast<std::byte>(byte));
  if (head.carried == carriage::follows) {
    auto bytes = std::min(head.shape.bytes(), 2 * on.shape.bytes());
    auto tensor = on.numbers(random, bytes);
    out.bytes.insert(out.bytes.end(), tensor.begin(), tensor.end());
  }
  if (head.carried == carriage::new_region || one_in(random, 12))
    out.file = make_region(random, on.shape.bytes());
  return out;
}

/// Sends all of it, and reads whatever comes, until the other end has had
/// enough.
class raw_sender {
public:
  raw_sender(transport::socket line, std::vector<parcel> parcels)
    : line_(std::move(line)), what_(std::move(parcels)), writes_([this] {
        try {
          for (auto& one : what_) {
            iovec all[] = {{one.bytes.data(), one.bytes.size()}};
            std::span<iovec> parts{all};
            line_.send(parts, true, one.file.get());
          }
        } catch (const path_error&) {
          // That was quick.
        }
        ::shutdown(line_.get(), SHUT_WR);
      }),
      reads_([this] {
        std::array<char, 4096> bytes;
        while (recv(line_.get(), bytes.data(), bytes.size(), 0) > 0)
          continue;
      }) {
    // nop
  }

  ~raw_sender() {
    writes_.join();
    reads_.join();
  }

private:
  transport::socket line_;
  std::vector<parcel> what_;
  std::thread writes_;
  std::thread reads_;
};

void attack_by_frames(uint64_t seed, bool shares_memory) {
  dice random{seed};
  server_under_attack on;
  for (int path = 0; path < 2; ++path) {
    std::vector<parcel> frames;
    for (auto left = 1 + random() % 12; left > 0; --left)
      frames.push_back(any_frame(on, random, shares_memory));
    auto [near, far] = socket_pair();
    path_terms terms{on.shape, 4, on.shape};
    path_ptr way;
    if (shares_memory)
      way = make_path<shm_carrier>(std::move(far), terms,
                                   std::make_shared<shared_memory>(), false);
    else
      way = make_path<stream_carrier>(std::move(far), terms);
    raw_sender peer{std::move(near), std::move(frames)};
    auto half =
      on.actors.make<path_end_actor, framed_gateway_state>(framed_gateway_parts{
        on.lead, on.gateway, make_path_channel(std::move(way))});
    on.actors.run();
    CHECK_FALSE(on.actors.alive(half));
    on.check_serves();
  }
}

// -- chunks -------------------------------------------------------------------

/// A peer whose tensors are sent in chunks. It takes everything; its gateway
/// makes the other end.
std::shared_ptr<chunk_end_actor> open_chunks(server_under_attack& on) {
  auto far = std::make_shared<chunk_end_actor>();
  auto near = on.actors.stand_in<chunk_end_actor>([far](auto*) {
    return chunk_end_actor::behavior_type{
      [far](attach_atom, const caf::strong_actor_ptr& other) {
        *far = caf::actor_cast<chunk_end_actor>(other);
      },
      [](frame_atom, uint8_t, transfer_id, const caf::byte_buffer&,
         const payload_shape&) {},
      [](chunk_atom, const chunk&) {},
      [](credit_atom, transfer_id, uint64_t) {},
      [](frame_atom, const frame_ptr&) {},
      [](detach_atom, const caf::error&) {},
    };
  });
  on.actors.tell(on.gateway, attach_atom_v, near);
  return far;
}

void attack_by_chunks(uint64_t seed) {
  dice random{seed};
  server_under_attack on;
  for (int connection = 0; connection < 2; ++connection) {
    on.gateway = on.actors.make<gateway_actor, gateway_state>(
      gateway_parts{on.lead, on.coordinator.handle, on.shape});
    auto far = *open_chunks(on);
    auto frame = [&](frame_kind kind, transfer_id id) {
      auto header = header_of(on, random, kind);
      if (one_in(random, 12))
        header.resize(odd_number(random, max_header_bytes) % (1u << 20));
      on.actors.tell(far, frame_atom_v, static_cast<uint8_t>(kind), id, header,
                     on.any_shape(random));
    };
    for (auto left = 1 + random() % 24; left > 0; --left) {
      transfer_id id{random() % 3};
      switch (random() % 7) {
      case 0:
        frame(frame_kind::pull, id);
        break;
      case 1:
        on.actors.tell(far, credit_atom_v, id,
                       odd_number(random, on.shape.bytes()));
        break;
      case 2:
      case 3:
        frame(one_in(random, 12) ? frame_kind{static_cast<uint8_t>(random())}
                                 : frame_kind::push,
              id);
        break;
      case 4: // Right, if the transfer has just begun.
        on.actors.tell(far, chunk_atom_v,
                       make_chunk(id.value, 0, on.shape.bytes()));
        break;
      case 5:
        if (one_in(random, 4))
          on.actors.tell(far, attach_atom_v, caf::strong_actor_ptr{});
        else if (one_in(random, 3))
          on.actors.tell(far, detach_atom_v, caf::error{});
        else if (one_in(random, 2))
          on.actors.tell(on.gateway, attach_atom_v, chunk_end_actor{});
        else
          open_chunks(on);
        break;
      default:
        on.actors.tell(far, chunk_atom_v,
                       any_chunk(random, id.value, on.shape.bytes()));
      }
    }
    on.check_serves();
  }
}

} // namespace

TEST_CASE("frames on a stream that break the protocol harm nobody else") {
  repeat(40, [](uint64_t seed) { attack_by_frames(seed, false); });
}

TEST_CASE("frames over shared memory that break the protocol harm nobody "
          "else") {
  repeat(40, [](uint64_t seed) { attack_by_frames(seed, true); });
}

TEST_CASE("chunks that break the protocol harm nobody else") {
  repeat(40, [](uint64_t seed) { attack_by_chunks(seed); });
}
