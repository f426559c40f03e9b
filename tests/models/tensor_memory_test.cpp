// A program of its own: LibTorch's allocator is replaced for all of the
// process.

#include "models/engine/compute.hpp"
#include "models/engine/tensor_memory.hpp"

#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/randint.h>
#include <ATen/ops/randn.h>
#include <catch2/catch_test_macros.hpp>
#include <sys/resource.h>

using namespace troupe;

namespace {

long page_faults() {
  rusage out{};
  getrusage(RUSAGE_SELF, &out);
  return out.ru_minflt;
}

void keep_all() {
  models::keep_tensor_memory(size_t{1} << 32);
}

} // namespace

TEST_CASE("large tensors are kept, small ones are not") {
  keep_all();
  const void* at = nullptr;
  {
    auto large = at::empty({1 << 20});
    at = large.const_data_ptr();
    CHECK(models::tensor_memory_usage().used >= (4u << 20));
    auto small = at::empty({100});
    CHECK(models::tensor_memory_usage().used < (5u << 20));
  }
  CHECK(models::tensor_memory_usage().kept >= (4u << 20));
  CHECK(at::empty({1 << 20}).const_data_ptr() == at);
  models::give_back_idle_tensor_memory();
  models::give_back_idle_tensor_memory();
  CHECK(models::tensor_memory_usage().kept == 0);
  at::empty({1 << 20});
  CHECK(models::tensor_memory_usage().kept >= (4u << 20));
  models::give_back_kept_tensor_memory();
  CHECK(models::tensor_memory_usage().kept == 0);
}

TEST_CASE("tensors from before come back to where they are from") {
  auto small = at::empty({10});
  auto large = at::empty({1 << 20});
  keep_all();
  small.reset();
  large.reset();
  large = at::empty({1 << 20});
  large.resize_({1 << 21});
  CHECK(large.numel() == 1 << 21);
}

TEST_CASE("a step that has been made before faults no page in") {
  keep_all();
  config::training_settings settings;
  settings.network = "resnet20";
  models::compute_engine engine{settings, 10};
  auto weights = at::empty({static_cast<int64_t>(engine.layout().count())});
  engine.initial_weights(weights, 1);
  auto gradient = at::empty_like(weights);
  auto step = [&] {
    engine.run(weights, at::randn({32, 3, 32, 32}), at::randint(10, {32}),
               gradient);
  };
  for (int i = 0; i < 5; ++i)
    step();
  constexpr int steps = 10;
  auto before = page_faults();
  for (int i = 0; i < steps; ++i)
    step();
  CHECK(page_faults() - before < 10 * steps);
}
