// Frames of activations on paths: any size up to the one agreed.

#include "messages/transport/shm/shm_carrier.hpp"
#include "messages/transport/stream/stream_carrier.hpp"
#include "tests/support/payloads.hpp"
#include "tests/support/sockets.hpp"

#include <catch2/catch_test_macros.hpp>

using namespace troupe;
using namespace troupe::test;
using namespace troupe::transport;

namespace {

constexpr payload_shape weights_shape{element_type::float32, 1000};
constexpr uint64_t most_activations = 2500;

path_terms terms_with_activations(size_t most = SIZE_MAX) {
  path_terms out{weights_shape, most};
  out.most_activations = most_activations;
  return out;
}

} // namespace

TEST_CASE("activations of any size up to the one agreed arrive whole") {
  auto memory = std::make_shared<shared_memory>();
  for (auto shared : {false, true}) {
    auto [left, right] = socket_pair();
    auto make = [&](transport::socket line) -> path_ptr {
      auto terms = terms_with_activations();
      if (shared)
        return make_path<shm_carrier>(std::move(line), terms, memory, true);
      return make_path<stream_carrier>(std::move(line), terms);
    };
    auto near = make(std::move(left));
    auto far = make(std::move(right));
    uint64_t seed = 0;
    for (uint64_t count : {1, 999, 1000, 1001, 2500, 0, 7})
      for (auto kind :
           {frame_kind::forward, frame_kind::passed, frame_kind::backward}) {
        INFO(shared << " " << count);
        auto sent = count > 0 ? random_payload(count, ++seed) : payload{};
        near->send({kind, transfer_id{++seed}, {}, sent});
        auto got = far->receive();
        REQUIRE(got);
        CHECK(got->kind == kind);
        CHECK(got->tensor.shape().count == count);
        CHECK((count == 0 || same_bytes(got->tensor, sent)));
      }
    // Weights keep their shape.
    near->send({frame_kind::push, transfer_id{1}, {}, random_payload(999, 1)});
    CHECK_FALSE(far->receive()->tensor);
  }
}

TEST_CASE("no memory is taken for activations that nobody agreed on") {
  for (auto [count, type] :
       {std::pair{most_activations + 1, element_type::float32},
        std::pair{uint64_t{10}, element_type::float64}})
    for (auto agreed : {true, false}) {
      frame_head head;
      head.kind = frame_kind::forward;
      head.carried = carriage::follows;
      head.shape = {type, count};
      auto bytes = encode(head);
      auto [left, right] = socket_pair();
      auto reader = make_path<stream_carrier>(
        std::move(right),
        agreed ? terms_with_activations() : path_terms{weights_shape});
      iovec all[] = {{bytes.data(), bytes.size()}};
      std::span<iovec> parts{all};
      left.send(parts, true);
      CHECK_THROWS_AS(reader->receive(), path_error);
    }
}

TEST_CASE("a peer has as many activations as gradients at a time") {
  auto [left, right] = socket_pair();
  auto near =
    make_path<stream_carrier>(std::move(left), terms_with_activations());
  auto far =
    make_path<stream_carrier>(std::move(right), terms_with_activations(2));
  std::vector<frame> held;
  for (uint64_t i = 1; i <= 3; ++i)
    near->send({frame_kind::forward, transfer_id{i}, {}, random_payload(5, i)});
  held.push_back(*far->receive());
  held.push_back(*far->receive());
  CHECK_THROWS_AS(far->receive(), path_error);
}
