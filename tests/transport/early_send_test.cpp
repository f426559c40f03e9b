// Gradients that are sent before their push, and weights that are used while
// they arrive, at the ends of a stream without actors.

#include "messages/finite.hpp"
#include "messages/transport/registry.hpp"
#include "messages/transport/shm/shared_memory.hpp"
#include "messages/transport/stream/stream_carrier.hpp"
#include "tests/support/payloads.hpp"
#include "tests/support/sockets.hpp"

#include <catch2/catch_test_macros.hpp>

#include <algorithm>
#include <future>
#include <limits>
#include <random>
#include <thread>

using namespace troupe;
using namespace troupe::test;
using namespace troupe::transport;

using config::overlap_rule;

namespace {

constexpr payload_shape gradient_shape{element_type::float32,
                                       1'000'000}; // 4 MB

/// A worker's end and a server's, and a thread that writes for the former.
struct stream_pair {
  explicit stream_pair(overlap_rule rule = overlap_rule::on,
                       uint64_t first_sent = 0,
                       payload_shape of = gradient_shape) {
    auto [left, right] = socket_pair();
    path_terms workers{of};
    workers.overlap = rule;
    near = make_path<stream_carrier>(std::move(left), workers);
    path_terms servers{of, 3};
    servers.first_sent = first_sent;
    servers.checks_numbers = true;
    far = make_path<stream_carrier>(std::move(right), servers);
    near->on_waiting([this] { write(*near); });
  }

  ~stream_pair() {
    near->close("over");
    far->close("over");
  }

  void write(path& end) {
    writers.push_back(
      std::async(std::launch::async, [&end] { end.write_rest(); }));
  }

  void push(uint64_t number, const payload& gradient) {
    if (near->send({frame_kind::push, transfer_id{number}, {}, gradient}))
      write(*near);
  }

  void answer(uint64_t number, const payload& weights) {
    if (far->send({frame_kind::release, transfer_id{number}, {}, weights}))
      write(*far);
  }

  path_ptr near;
  path_ptr far;
  std::vector<std::future<void>> writers;
};

/// Reports the gradient as backward would, in random steps.
void make(gradient_stream& out, const payload& gradient, uint64_t seed,
          uint64_t down_to = 0) {
  std::mt19937_64 random{seed};
  out.begin(gradient);
  auto at = gradient.host_bytes().size();
  while (at > down_to) {
    at -= std::min<uint64_t>(at - down_to, 4 * (1 + random() % 200'000));
    out.ready(at);
  }
}

frame_head piece_of(uint64_t number, uint64_t offset, uint64_t count) {
  frame_head out;
  out.kind = frame_kind::piece;
  out.carried = carriage::follows;
  out.shape = {element_type::float32, count};
  out.region = number;
  out.offset = offset;
  return out;
}

} // namespace

// -- gradients ----------------------------------------------------------------

TEST_CASE("a gradient that went ahead arrives with its push, bit for bit") {
  stream_pair it;
  for (uint64_t number = 1; number <= 5; ++number) {
    auto gradient = random_payload(gradient_shape.count, number);
    make(*it.near->early_gradients(), gradient, number);
    it.push(number, gradient);
    auto found = it.far->receive();
    REQUIRE(found);
    CHECK(found->kind == frame_kind::push);
    CHECK(found->request == transfer_id{number});
    CHECK(same_bytes(found->tensor, gradient));
  }
}

TEST_CASE("whether a gradient is finite is known when it is there") {
  constexpr uint64_t nowhere = gradient_shape.count;
  stream_pair it;
  uint64_t number = 0;
  for (auto bad : {nowhere, 0ul, 65'535ul, 65'536ul, 500'000ul, nowhere - 1})
    for (auto ahead : {false, true}) {
      INFO(bad << (ahead ? ", sent ahead" : ", sent whole"));
      payload_buffer memory{gradient_shape};
      auto* numbers = reinterpret_cast<float*>(memory.bytes().data());
      std::fill_n(numbers, gradient_shape.count, 1.5f);
      if (bad != nowhere)
        numbers[bad] = std::numeric_limits<float>::quiet_NaN();
      auto gradient = std::move(memory).seal();
      if (ahead)
        make(*it.near->early_gradients(), gradient, ++number);
      it.push(++number, gradient);
      auto found = it.far->receive();
      REQUIRE(found);
      CHECK(found->tensor.finite() == (bad == nowhere));
      CHECK(all_finite(found->tensor) == all_finite(gradient));
      it.answer(number, gradient); // Workers do not look at weights.
      CHECK_FALSE(it.near->receive()->tensor.finite());
    }
}

TEST_CASE("what has gone ahead is there before the push is sent") {
  stream_pair it;
  auto gradient = random_payload(gradient_shape.count, 1);
  make(*it.near->early_gradients(), gradient, 1, 2'000'000);
  for (auto& one : it.writers)
    one.wait(); // The socket has it.
  it.near->early_gradients()->ready(0);
  it.push(1, gradient);
  CHECK(same_bytes(it.far->receive()->tensor, gradient));
}

TEST_CASE("a gradient that is given up leaves nothing behind") {
  stream_pair it;
  auto given_up = random_payload(gradient_shape.count, 1);
  auto next = random_payload(gradient_shape.count, 2);
  auto& out = *it.near->early_gradients();
  SECTION("for another one") {
    make(out, given_up, 1, 1'500'000);
    make(out, next, 2);
    it.push(1, next);
  }
  SECTION("when all of it had gone") {
    make(out, given_up, 1);
    make(out, next, 2);
    it.push(1, next);
  }
  SECTION("for one that is pushed as a whole") {
    make(out, given_up, 1, 1'500'000);
    it.push(1, next);
  }
  SECTION("in the same memory") {
    make(out, next, 1, 1'500'000);
    make(out, next, 2);
    it.push(1, next);
  }
  CHECK(same_bytes(it.far->receive()->tensor, next));
  for (auto& one : it.writers)
    one.wait();
  CHECK(given_up.owner().use_count() == 1);
}

TEST_CASE("a gradient of another shape stays whole") {
  pieces_out out{overlap_rule::on, gradient_shape};
  out.begin(random_payload(10, 1));
  CHECK_FALSE(out.ready(0));
}

TEST_CASE("small parts of a gradient wait for a bucket, the last does not") {
  pieces_out out{overlap_rule::on, gradient_shape};
  auto gradient = random_payload(gradient_shape.count, 1);
  out.begin(gradient);
  auto all = gradient_shape.bytes();
  CHECK_FALSE(out.ready(all - bucket_bytes + 4));
  auto first = out.ready(all - bucket_bytes);
  REQUIRE(first);
  CHECK(first->offset == all - bucket_bytes);
  CHECK(first->what.shape().bytes() == bucket_bytes);
  out.sent(*first);
  for (auto at = first->offset; at > 0;) {
    at = at > 3 * bucket_bytes ? at - 3 * bucket_bytes : 0;
    auto next = out.ready(at);
    REQUIRE(next);
    CHECK(next->what.host_bytes().data() == gradient.host_bytes().data() + at);
    out.sent(*next);
  }
  CHECK(out.take_number(gradient) == 1);
  CHECK_FALSE(out.take_number(gradient));
}

TEST_CASE("only a tensor that has gone whole has gone ahead") {
  pieces_out out{overlap_rule::on, gradient_shape};
  auto gradient = random_payload(gradient_shape.count, 1);
  auto other = random_payload(gradient_shape.count, 2);
  out.begin(gradient);
  auto part = out.ready(1'000'000);
  REQUIRE(part);
  out.sent(*part);
  CHECK_FALSE(out.take_number(gradient));
  out.begin(gradient);
  out.sent(*out.ready(0));
  CHECK_FALSE(out.take_number(other));
  CHECK_FALSE(out.ready(0)); // It was given up.
}

TEST_CASE("gradients go ahead where sending takes long beside computing") {
  pieces_out out{overlap_rule::automatic, gradient_shape};
  CHECK_FALSE(out.on());
  out.computed(1.0, 0.05);
  CHECK_FALSE(out.on());
  out.computed(1.0, 0.25); // 0.2 s since then.
  CHECK(out.on());
  out.computed(1.0, 0.26);
  CHECK_FALSE(out.on());
  CHECK(pieces_out{overlap_rule::on, gradient_shape}.on());
  stream_pair never{overlap_rule::off};
  CHECK(never.near->early_gradients() == nullptr);
}

TEST_CASE("a piece that is out of place ends the path") {
  pieces_in in{gradient_shape};
  auto all = gradient_shape.bytes();
  auto memory = std::shared_ptr<std::byte>{new std::byte[all],
                                           std::default_delete<std::byte[]>{}};
  auto begin = [&](const frame_head& head) {
    REQUIRE(in.begins(head));
    in.begin(head, memory);
  };
  SECTION("not at the end") {
    auto head = piece_of(1, 0, 10);
    begin(head);
    CHECK_THROWS_AS(in.place(head), path_error);
  }
  SECTION("past the end") {
    auto head = piece_of(1, all - 4, 10);
    begin(head);
    CHECK_THROWS_AS(in.place(head), path_error);
  }
  SECTION("longer than the tensor") {
    auto head = piece_of(1, 0, gradient_shape.count + 1);
    begin(head);
    CHECK_THROWS_AS(in.place(head), path_error);
  }
  SECTION("an offset that wraps around") {
    auto head = piece_of(1, uint64_t{0} - 40, 10);
    begin(head);
    CHECK_THROWS_AS(in.place(head), path_error);
  }
  SECTION("empty") {
    auto head = piece_of(1, all, 0);
    begin(head);
    CHECK_THROWS_AS(in.place(head), path_error);
  }
  SECTION("of another type") {
    auto head = piece_of(1, all - 40, 40);
    head.shape.type = element_type::byte;
    begin(head);
    CHECK_THROWS_AS(in.place(head), path_error);
  }
  SECTION("not next to the one before") {
    auto head = piece_of(1, all - 40, 10);
    begin(head);
    CHECK(in.place(head).data() == memory.get() + all - 40);
    CHECK_FALSE(in.begins(head));
    CHECK_THROWS_AS(in.place(head), path_error);
    CHECK_THROWS_AS(in.take_payload(1), path_error); // It is not whole.
  }
  SECTION("of a tensor that never came") {
    CHECK_THROWS_AS(in.take_payload(1), path_error);
  }
}

// -- weights ------------------------------------------------------------------

TEST_CASE("weights are handed out while they come") {
  stream_pair it{overlap_rule::on, gradient_shape.bytes() - 400};
  auto weights = random_payload(gradient_shape.count, 1);
  it.answer(1, weights);
  auto found = it.near->receive();
  REQUIRE(found);
  const auto& progress = found->tensor.arriving();
  REQUIRE(progress);
  CHECK_FALSE(progress->whole());
  auto rest = std::async(std::launch::async,
                         [&] { return it.near->receive().has_value(); });
  CHECK(
    progress->wait_for(gradient_shape.bytes() - 400, gradient_shape.bytes()));
  CHECK(progress->wait_for(0, 1000));
  CHECK(std::ranges::equal(found->tensor.host_bytes().first(1000),
                           weights.host_bytes().first(1000)));
  CHECK(progress->wait_for_all());
  CHECK(progress->whole());
  CHECK(same_bytes(found->tensor, weights));
  it.far->close("over");
  CHECK_FALSE(rest.get());
}

TEST_CASE("weights that stop coming wake those who wait for them") {
  // More than sockets keep.
  constexpr payload_shape large{element_type::float32, 16'000'000};
  stream_pair it{overlap_rule::on, 0, large};
  it.answer(1, constant_payload(large.count, 1));
  auto found = it.near->receive();
  auto waiting = std::async(std::launch::async, [&] {
    return found->tensor.arriving()->wait_for_all();
  });
  it.far->close("gone");
  CHECK_THROWS_AS(it.near->receive(), path_error);
  CHECK_FALSE(waiting.get());
}

TEST_CASE("without overlap weights are whole, whatever goes first") {
  for (uint64_t first : {uint64_t{0}, uint64_t{4000}, gradient_shape.bytes()}) {
    stream_pair it{overlap_rule::off, first};
    auto weights = random_payload(gradient_shape.count, 1);
    it.answer(1, weights);
    auto found = it.near->receive();
    REQUIRE(found);
    CHECK(found->tensor.arriving() == nullptr);
    CHECK(same_bytes(found->tensor, weights));
  }
}

TEST_CASE("a part of a tensor is there when all bytes before it on the way "
          "are") {
  arrival it{100, 80};
  CHECK_FALSE(it.whole());
  it.reach(20);
  CHECK(it.wait_for(80, 100));
  CHECK(it.wait_for(85, 90));
  CHECK(it.wait_for(7, 7));
  it.reach(50);
  CHECK(it.wait_for(0, 30));
  auto later =
    std::async(std::launch::async, [&] { return it.wait_for(29, 31); });
  it.reach(51);
  CHECK(later.get());
  auto all =
    std::async(std::launch::async, [&] { return it.wait_for(70, 90); });
  it.break_off();
  CHECK_FALSE(all.get());
  CHECK(it.wait_for(0, 31));
  CHECK_FALSE(it.wait_for_all());
}

TEST_CASE("kinds of path say of themselves whether gradients can go early") {
  path_means means;
  means.memory = std::make_shared<shared_memory>();
  size_t made = 0;
  for (const auto& row : path_rows()) {
    if (!row.near_end || (row.possible && !row.possible(means)))
      continue;
    INFO(row.facts.name);
    auto [line, other] = socket_pair();
    path_terms terms{gradient_shape};
    terms.overlap = overlap_rule::on;
    auto way = row.near_end(std::move(line), terms, means);
    CHECK(row.facts.overlaps == (way->early_gradients() != nullptr));
    CHECK(way->name() == row.facts.name);
    way->close("over");
    ++made;
  }
  CHECK(made == 2); // shm and stream; NCCL is not possible here.
}
