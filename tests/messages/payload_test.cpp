#include "messages/interfaces.hpp"
#include "messages/payload.hpp"
#include "messages/payload_memory.hpp"

#include <caf/binary_serializer.hpp>
#include <caf/byte_buffer.hpp>
#include <catch2/catch_test_macros.hpp>

#include <cstring>

using namespace troupe;

namespace {

payload three_floats() {
  payload_buffer memory{{element_type::float32, 3}};
  const float numbers[] = {1.5f, -0.0f, 1e-40f};
  std::memcpy(memory.bytes().data(), numbers, sizeof numbers);
  return std::move(memory).seal();
}

} // namespace

TEST_CASE("a sealed buffer is the same memory") {
  payload_buffer memory{{element_type::float64, 5}};
  auto* data = memory.bytes().data();
  CHECK(memory.bytes().size() == 40);
  CHECK(reinterpret_cast<uintptr_t>(data) % 64 == 0);
  auto sealed = std::move(memory).seal();
  CHECK(sealed.host_bytes().data() == data);
  CHECK(sealed.shape() == payload_shape{element_type::float64, 5});
}

TEST_CASE("a block lies where it was asked to, however small it is") {
  for (size_t alignment : {size_t{64}, memory_page})
    for (size_t bytes : {size_t{0}, size_t{1}, alignment, alignment + 1}) {
      auto block = allocate_block(bytes, alignment);
      CHECK(reinterpret_cast<uintptr_t>(block.get()) % alignment == 0);
    }
  auto block = heap_memory()->take_block(0);
  CHECK(reinterpret_cast<uintptr_t>(block.get()) % memory_page == 0);
}

TEST_CASE("a payload's memory lives as long as a handle or a view of it") {
  auto alive = std::make_shared<int>(0);
  std::weak_ptr<int> watch = alive;
  auto first = payload{{}, std::move(alive), nullptr};
  auto view = first.owner();
  auto second = first;
  first = {};
  second = {};
  CHECK_FALSE(watch.expired());
  view.reset();
  CHECK(watch.expired());
}

TEST_CASE("a payload is shown by size and kind, never by its numbers") {
  CHECK(to_string(payload{}) == "payload(none)");
  CHECK(to_string(three_floats()) == "payload(3 x float32)");
  CHECK_FALSE(payload{});
  CHECK(three_floats());
}

TEST_CASE("a message with a payload cannot be written to a connection") {
  init_messages();
  for (const auto& message :
       {caf::make_message(three_floats()),
        caf::make_message(push_atom_v, push_header{}, three_floats()),
        caf::make_message(note_ptr{}), caf::make_message(snapshot_ptr{}),
        caf::make_message(loaded_batch{}), caf::make_message(compute_task{}),
        caf::make_message(gradient_report{})}) {
    caf::byte_buffer bytes;
    caf::binary_serializer sink{nullptr, bytes};
    CHECK_FALSE(sink.apply(message));
    CHECK(sink.get_error() == caf::sec::unsafe_type);
  }
}

TEST_CASE("a message with a payload can be shown") {
  init_messages();
  auto message = caf::make_message(push_atom_v, push_header{}, three_floats());
  auto text = caf::to_string(message);
  CHECK(text.size() < 1000);
  CHECK(text.find("1.5") == std::string::npos);
}
