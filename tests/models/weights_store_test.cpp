#include "models/layout/weights_store.hpp"
#include "tests/support/optimizer_step.hpp"

#include <ATen/ATen.h>
#include <catch2/catch_test_macros.hpp>

#include <atomic>
#include <thread>
#include <vector>

using namespace troupe;
using namespace troupe::models;
using namespace troupe::test;

namespace {

weights_ptr publish(weights_store& to, uint64_t id) {
  auto next = to.next_buffer();
  next.fill_(static_cast<double>(id));
  return to.publish(version{id}, next);
}

} // namespace

TEST_CASE("buffers are flat, typed and aligned to pages", "[weights-store]") {
  weights_store narrow{1001, float32};
  weights_store wide{1001, float64};
  auto x = narrow.next_buffer();
  CHECK(x.sizes() == at::IntArrayRef{1001});
  CHECK(x.scalar_type() == at::kFloat);
  CHECK(reinterpret_cast<uintptr_t>(x.const_data_ptr()) % 4096 == 0);
  CHECK(wide.next_buffer().scalar_type() == at::kDouble);
}

TEST_CASE("the newest version is the last published", "[weights-store]") {
  weights_store uut{8, float32};
  CHECK(uut.newest() == nullptr);
  auto zero = publish(uut, 0);
  CHECK(uut.newest() == zero);
  auto one = publish(uut, 1);
  CHECK(uut.newest() == one);
  CHECK(one->id == version{1});
  CHECK(zero->flat.eq(0).all().item<bool>());
}

TEST_CASE("memory is used again when its last reader lets go",
          "[weights-store]") {
  weights_store uut{8, float32};
  auto reader = publish(uut, 0);
  const auto* memory = reader->flat.const_data_ptr();
  publish(uut, 1);
  CHECK(uut.stats().in_use == 2);
  CHECK(uut.next_buffer().const_data_ptr() != memory);
  reader.reset();
  CHECK(uut.stats().in_use == 1);
  auto next = uut.next_buffer();
  CHECK(next.const_data_ptr() == memory);
  CHECK(uut.stats().allocated == 3);
}

TEST_CASE("training without slow readers needs two buffers",
          "[weights-store]") {
  weights_store uut{8, float32};
  for (uint64_t i = 0; i < 100; ++i) {
    publish(uut, i);
  }
  CHECK(uut.stats().allocated == 2);
}

TEST_CASE("a view alone keeps its version's memory", "[weights-store]") {
  weights_store uut{8, float32};
  auto view = publish(uut, 7)->flat.narrow(0, 2, 3);
  for (uint64_t i = 8; i < 12; ++i) {
    publish(uut, i);
  }
  CHECK(view.eq(7).all().item<bool>());
}

TEST_CASE("versions outlive their store", "[weights-store]") {
  auto uut = std::make_unique<weights_store>(8, float32);
  auto reader = publish(*uut, 5);
  auto unpublished = uut->next_buffer();
  uut.reset();
  CHECK(reader->flat.eq(5).all().item<bool>());
  unpublished.fill_(1);
}

// Catch2's macros are not thread-safe: the threads only count.
TEST_CASE("no reader sees a version change", "[weights-store]") {
  constexpr int64_t count = 20'000;
  weights_store uut{count, float32};
  publish(uut, 0);
  std::atomic<bool> done = false;
  std::atomic<uint64_t> torn = 0;
  auto read = [&] {
    uint64_t last = 0;
    while (!done) {
      auto seen = uut.newest();
      const auto* x = seen->flat.const_data_ptr<float>();
      auto expected = static_cast<float>(seen->id.value);
      for (int64_t i = 0; i < count; ++i) {
        torn += x[i] != expected;
      }
      torn += seen->id.value < last;
      last = seen->id.value;
    }
  };
  std::vector<std::thread> readers;
  for (int i = 0; i < 3; ++i) {
    readers.emplace_back(read);
  }
  for (uint64_t id = 1; id <= 500; ++id) {
    publish(uut, id);
  }
  done = true;
  for (auto& x : readers) {
    x.join();
  }
  CHECK(torn == 0);
  CHECK(uut.stats().in_use == 1);
  CHECK(uut.stats().allocated <= 2 + readers.size());
}

TEST_CASE("a version that nobody reads makes place for the next",
          "[weights-store]") {
  weights_store uut{8, float32};
  const auto* memory = publish(uut, 0)->flat.const_data_ptr();
  auto next = uut.step_buffer();
  CHECK(next.const_data_ptr() == memory);
  next.fill_(1);
  uut.publish(version{1}, std::move(next));
  CHECK(uut.stats().allocated == 1);
  CHECK(uut.newest()->id == version{1});
}

TEST_CASE("a version that somebody reads stays what it is", "[weights-store]") {
  weights_store uut{8, float32};
  publish(uut, 5);
  auto reader = uut.newest();
  CHECK(uut.step_buffer().const_data_ptr() != reader->flat.const_data_ptr());
  auto tensor = reader->flat;
  reader.reset();
  CHECK(uut.step_buffer().const_data_ptr() != tensor.const_data_ptr());
  auto view = tensor.narrow(0, 3, 2);
  const auto* memory = tensor.const_data_ptr();
  tensor.reset();
  CHECK(uut.step_buffer().const_data_ptr() != memory);
  view.reset();
  CHECK(uut.step_buffer().const_data_ptr() == memory);
}

TEST_CASE("readers of other threads see no version change in place",
          "[weights-store]") {
  constexpr int64_t count = 5'000;
  weights_store uut{count, float32};
  publish(uut, 0);
  std::atomic<weights_version*> handed{nullptr};
  std::atomic<uint64_t> torn = 0;
  std::atomic<bool> done = false;
  std::thread reader{[&] {
    while (!done) {
      std::unique_ptr<weights_version> mine{handed.exchange(nullptr)};
      if (!mine) {
        continue;
      }
      const auto* x = mine->flat.const_data_ptr<float>();
      for (int64_t i = 0; i < count; ++i) {
        torn += x[i] != static_cast<float>(mine->id.value);
      }
    }
  }};
  size_t in_place = 0;
  for (uint64_t id = 1; id <= 20'000; ++id) {
    auto before = uut.newest()->flat.const_data_ptr();
    auto next = uut.step_buffer();
    in_place += next.const_data_ptr() == before;
    next.fill_(static_cast<double>(id));
    uut.publish(version{id}, std::move(next));
    // Only who makes versions hands them out.
    if (id % 3 == 0) {
      delete handed.exchange(new weights_version{*uut.newest()});
    }
  }
  done = true;
  reader.join();
  delete handed.load();
  CHECK(torn == 0);
  CHECK(in_place > 0);
}
