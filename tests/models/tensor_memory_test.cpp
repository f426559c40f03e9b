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

#include <array>
#include <barrier>
#include <memory>
#include <thread>
#include <utility>
#include <vector>

using namespace troupe;

namespace {

long page_faults() {
  rusage out{};
  getrusage(RUSAGE_SELF, &out);
  return out.ru_minflt;
}

/// Gradients of random batches.
class steps_of {
public:
  steps_of(const char* network, std::vector<int64_t> inputs)
    : engine_{settings_of(network), 10}, inputs_(std::move(inputs)),
      weights_(at::empty({static_cast<int64_t>(engine_.layout().count())})),
      gradient_(at::empty_like(weights_)) {
    engine_.initial_weights(weights_, 1);
  }

  void make(int count) {
    for (int i = 0; i < count; ++i)
      engine_.run(weights_, at::randn(inputs_),
                  at::randint(10, {inputs_.front()}), gradient_);
  }

private:
  static config::training_settings settings_of(const char* network) {
    config::training_settings out;
    out.network = network;
    return out;
  }

  models::compute_engine engine_;
  std::vector<int64_t> inputs_;
  at::Tensor weights_;
  at::Tensor gradient_;
};

void keep_all() {
  models::keep_tensor_memory(size_t{1} << 32);
  // The bound follows the peak of two periods; forget that of other tests.
  models::give_back_idle_tensor_memory();
  models::give_back_idle_tensor_memory();
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
  steps_of resnet{"resnet20", {32, 3, 32, 32}};
  resnet.make(5);
  constexpr int steps = 10;
  auto before = page_faults();
  resnet.make(steps);
  CHECK(page_faults() - before < 10 * steps);
}

// Blocks of all sizes together come to more than is taken at any one time.
TEST_CASE("steps of two workers fault no page in, either") {
  keep_all();
  constexpr int steps = 50;
  std::array<std::unique_ptr<steps_of>, 2> workers;
  for (auto& x : workers)
    x =
      std::make_unique<steps_of>("lenet", std::vector<int64_t>{64, 1, 28, 28});
  long before = 0;
  int phase = 0;
  std::barrier together{2, [&]() noexcept {
                          if (phase++ == steps)
                            before = page_faults();
                        }};
  std::array<std::thread, 2> threads;
  for (size_t i = 0; i < 2; ++i)
    threads[i] = std::thread{[&, i] {
      for (int k = 0; k < 2 * steps; ++k) {
        workers[i]->make(1);
        together.arrive_and_wait();
      }
    }};
  for (auto& x : threads)
    x.join();
  CHECK(page_faults() - before < 10 * 2 * steps);
}
