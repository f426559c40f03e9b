// Memory that other processes see, where a process copies between it and a
// device.

#include "messages/transport/shm/shared_memory.hpp"
#include "models/device/accelerator.hpp"
#include "tests/device/open_device.hpp"

#include <ATen/Context.h>
#include <ATen/ops/from_blob.h>
#include <ATen/ops/randn.h>
#include <catch2/catch_test_macros.hpp>
#include <unistd.h>

#include <cstdlib>

using namespace troupe;
using namespace troupe::test;

namespace {

constexpr int64_t numbers_of_block = 1000;
constexpr size_t bytes_of_block = numbers_of_block * sizeof(float);

/// A block of its own, and the same as another process sees it.
struct both_sides {
  both_sides() {
    open_device();
    at::globalContext().lazyInitDevice(
      c10::kCUDA); // Before it, nothing counts.
    shared.pin_with(&models::pin_memory);
    block = shared.take_block(bytes_of_block);
    auto where = shared.find(block.get(), bytes_of_block);
    theirs = shared.map_foreign(
      transport::descriptor{dup(where->region->file.get())}, bytes_of_block);
  }

  static at::Tensor numbers(std::byte* at) {
    return at::from_blob(at, {numbers_of_block}, at::kFloat);
  }

  transport::shared_memory shared;
  memory_block block;
  transport::shared_region_ptr theirs;
};

} // namespace

TEST_CASE("a device copies to and from memory that other processes see") {
  both_sides on;
  auto ours = on.numbers(on.block.get());
  auto theirs = on.numbers(on.theirs->memory.data());
  CHECK(ours.is_pinned());
  CHECK(theirs.is_pinned());
  auto there = at::randn({numbers_of_block}).to(last_device());
  ours.copy_(there); // A blocking copy, so the host may read it.
  CHECK(theirs.equal(ours));
  CHECK(theirs.to(last_device()).cpu().equal(ours));
}

TEST_CASE("what a device refuses to pin is used all the same") {
  setenv("FAKE_CUDA_REFUSES", "register", 1);
  both_sides on;
  unsetenv("FAKE_CUDA_REFUSES");
  auto ours = on.numbers(on.block.get());
  CHECK_FALSE(ours.is_pinned());
  auto there = at::randn({numbers_of_block}).to(last_device());
  ours.copy_(there, /*non_blocking=*/true);
  CHECK(on.numbers(on.theirs->memory.data()).equal(ours));
}
