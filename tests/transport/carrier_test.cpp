// Carriers by themselves, between a line that notes what they do and a test
// that moves what they hand over.

#include "messages/protocol.hpp"
#include "messages/transport/chunked/chunk_carrier.hpp"
#include "messages/transport/shm/shm_carrier.hpp"
#include "messages/transport/stream/stream_carrier.hpp"
#include "tests/support/payloads.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_exception.hpp>
#include <unistd.h>

#include <algorithm>
#include <deque>

using namespace troupe;
using namespace troupe::test;
using namespace troupe::transport;

using Catch::Matchers::Message;

namespace {

constexpr payload_shape tensor_shape{element_type::float32, 3000};

class noting_line final : public frame_line {
public:
  void send_now(const frame& message) override { sent.push_back(message); }

  void send_piece(uint64_t number, uint64_t offset, payload piece) override {
    frame_head head;
    head.kind = frame_kind::piece;
    head.carried = carriage::follows;
    head.shape = piece.shape();
    head.region = number;
    head.offset = offset;
    pieces.emplace_back(head, std::move(piece));
  }

  void close(const std::string&) override {}
  bool is_cut() const override { return false; }
  double seconds_on_the_way() const override { return 0; }
  const let_go_ledger_ptr& ledger() const override { return let_gos; }

  std::vector<frame> sent;
  std::deque<std::pair<frame_head, payload>> pieces;
  let_go_ledger_ptr let_gos = std::make_shared<let_go_ledger>();
};

frame_head head_of(frame_kind kind, uint64_t request, payload_shape shape) {
  frame_head out;
  out.kind = kind;
  out.request = transfer_id{request};
  out.shape = shape;
  return out;
}

/// Moves the bytes behind a frame, as the two ends of a socket do.
void move_bytes(const payload& from, size_t first,
                const incoming_tensor& incoming) {
  REQUIRE(incoming.follows.size() == from.host_bytes().size());
  REQUIRE(incoming.first == first);
  auto bytes = from.host_bytes();
  std::ranges::copy(bytes.subspan(first), incoming.follows.begin() + first);
  std::ranges::copy(bytes.first(first), incoming.follows.begin());
}

/// Moves a tensor from one carrier to another.
payload carry(tensor_carrier& from, tensor_carrier& to, uint64_t request,
              const payload& tensor) {
  auto head = head_of(frame_kind::push, request, tensor.shape());
  auto outgoing = from.place(head, tensor);
  std::vector<descriptor> files;
  if (outgoing.file >= 0)
    files.emplace_back(dup(outgoing.file));
  auto incoming = to.expect(head, files);
  if (outgoing.follows)
    move_bytes(outgoing.follows, outgoing.first, incoming);
  else
    CHECK(incoming.follows.empty());
  frame push{head.kind, head.request, {}, incoming.tensor};
  CHECK_FALSE(to.intercept(push));
  return push.tensor;
}

/// Two carriers of chunks, and the chunks on their way.
struct chunk_pair {
  /// Delivers the oldest chunk, and the credit for it.
  std::optional<frame> deliver() {
    auto piece = std::move(chunks.front());
    chunks.pop_front();
    auto progress = far.accept(piece);
    REQUIRE(progress);
    near.add_credit(piece.transfer, progress->received);
    return std::move(progress->whole);
  }

  bool expect(uint64_t request, payload_shape shape = tensor_shape) {
    auto head = head_of(frame_kind::push, request, shape);
    std::vector<descriptor> files;
    frame push{head.kind, head.request, {}, far.expect(head, files).tensor};
    return far.intercept(push);
  }

  void place(uint64_t request, const payload& tensor) {
    auto head = head_of(frame_kind::push, request, tensor.shape());
    auto outgoing = near.place(head, tensor);
    CHECK_FALSE(outgoing.follows);
  }

  std::deque<chunk> chunks;
  chunk_carrier near{[this](chunk&& piece) {
    chunks.push_back(std::move(piece));
  }};
  chunk_carrier far{[](const chunk&) {
  }};
};

} // namespace

TEST_CASE("what a carrier places, another one of its kind expects") {
  noting_line left, right;
  path_terms terms{tensor_shape};
  auto tensor = random_payload(tensor_shape.count, 1);
  SECTION("behind its frame") {
    terms.first_sent = 400;
    stream_carrier from{left, terms}, to{right, terms};
    CHECK(from.name() == "stream");
    for (uint64_t i = 1; i <= 3; ++i)
      CHECK(same_bytes(carry(from, to, i, tensor), tensor));
  }
  SECTION("in shared memory") {
    auto memory = std::make_shared<shared_memory>();
    shm_carrier from{left, terms, memory, true};
    shm_carrier to{right, terms, std::make_shared<shared_memory>(), false};
    CHECK(from.name() == "shm");
    for (uint64_t i = 1; i <= 3; ++i) {
      CHECK(same_bytes(carry(from, to, i, tensor), tensor));
      CHECK(right.let_gos->remove_entries(9) == std::vector{i});
      from.let_go(i);
    }
  }
  SECTION("in chunks") {
    chunk_pair it;
    CHECK(it.near.name() == "chunked");
    CHECK(it.expect(1));
    it.place(1, tensor);
    REQUIRE(it.chunks.size() == 1);
    auto whole = it.deliver();
    REQUIRE(whole);
    CHECK(whole->request == transfer_id{1});
    CHECK(same_bytes(whole->tensor, tensor));
  }
  CHECK(left.sent.empty());
  CHECK(right.sent.empty());
}

TEST_CASE("only a stream sends gradients early, and takes pieces for itself") {
  noting_line left, right;
  path_terms terms{tensor_shape};
  terms.overlap = config::overlap_rule::on;
  stream_carrier from{left, terms}, to{right, terms};
  auto gradient = random_payload(tensor_shape.count, 1);
  auto* early = from.early_gradients();
  REQUIRE(early);
  early->begin(gradient);
  early->ready(0);
  REQUIRE(left.pieces.size() == 1);
  auto [head, piece] = left.pieces.front();
  std::vector<descriptor> no_files;
  move_bytes(piece, 0, to.expect(head, no_files));
  frame received{head.kind, head.request, {}, {}};
  received.tensor.know_finite(false);
  CHECK(to.intercept(received));
  auto whole = carry(from, to, 1, gradient);
  CHECK(same_bytes(whole, gradient));
  CHECK(whole.finite() == false);

  shm_carrier shared{right, terms, std::make_shared<shared_memory>(), false};
  CHECK(shared.early_gradients() == nullptr);
  CHECK_THROWS_MATCHES(
    shared.expect(head, no_files), path_error,
    Message("a piece of a tensor on a path that sends them whole"));
}

TEST_CASE("a frame whose tensor comes in chunks is kept until it is whole") {
  constexpr payload_shape large{element_type::float32, 2u << 20}; // 8 chunks.
  chunk_pair it;
  auto tensor = random_payload(large.count, 1);
  auto other = random_payload(tensor_shape.count, 2);
  CHECK(it.expect(1, large));
  CHECK(it.expect(2));
  CHECK_FALSE(it.expect(3, {})); // Nothing will come of an empty one.
  it.place(1, tensor);
  CHECK(it.chunks.size() == 4); // The credit is used up.
  it.place(2, other);
  std::vector<frame> whole;
  while (!it.chunks.empty())
    if (auto next = it.deliver())
      whole.push_back(std::move(*next));
  REQUIRE(whole.size() == 2); // The smaller one first.
  CHECK(same_bytes(whole[0].tensor, other));
  CHECK(same_bytes(whole[1].tensor, tensor));
}

TEST_CASE("a carrier of chunks refuses what breaks the protocol") {
  chunk_pair it;
  auto tensor = random_payload(tensor_shape.count, 1);
  SECTION("more tensors than may be on the way") {
    for (uint64_t i = 1; i <= max_pushes_in_flight; ++i) {
      it.place(i, tensor);
      CHECK(it.expect(i));
    }
    CHECK_THROWS_MATCHES(it.place(99, tensor), path_error,
                         Message("the other node does not receive the tensors "
                                 "that are sent to it"));
    CHECK_THROWS_MATCHES(it.expect(99), path_error,
                         Message("too many tensors at a time"));
    it.near.let_go(1);
    it.place(99, tensor);
  }
  SECTION("a number twice") {
    it.expect(1);
    CHECK_THROWS_MATCHES(it.expect(1), path_error,
                         Message("two tensors have the same number"));
  }
  SECTION("a chunk out of place") {
    it.expect(1);
    chunk piece{transfer_id{1}, 4, tensor, 8, nullptr};
    CHECK_THROWS_MATCHES(it.far.accept(piece), path_error,
                         Message("a piece is out of place"));
    piece.transfer = transfer_id{2}; // Of a tensor that nobody has announced.
    CHECK_FALSE(it.far.accept(piece));
  }
  SECTION("credit for what was not sent") {
    it.place(1, tensor);
    CHECK_THROWS_MATCHES(
      it.near.add_credit(transfer_id{1}, tensor_shape.bytes() + 1), path_error,
      Message("the other end has received what was not sent"));
    it.near.add_credit(transfer_id{2}, 1); // Over long ago.
  }
}
