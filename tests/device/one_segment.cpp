// Computes a segment's part of a batch on the fake device, from and to pinned
// memory, then one that is cancelled before it computes, and uses that memory
// at once; prints how many times it made something wait. Ends with 0 if all was
// in order. With an argument it computes in half precision.

#include "models/device/accelerator.hpp"
#include "models/engine/host_segment.hpp"
#include "models/guarded.hpp"
#include "tests/device/dependencies.hpp"

#include <ATen/ops/empty.h>
#include <ATen/ops/ones_like.h>
#include <ATen/ops/rand.h>

#include <cstdio>
#include <exception>

int main(int argc, char**) try {
  using namespace troupe;
  using namespace troupe::models;
  open_cuda();
  config::training_settings settings;
  settings.network = "mnist_net";
  settings.device = "cuda:0";
  auto half = argc > 1;
  if (half)
    settings.autocast = config::autocast_kind::fp16;
  auto scale = half ? 1024.0 : 0;
  // The stem has most of the parameters, so that they fill pages.
  host_segment stem{settings, 10, {}, {0, 3}};
  host_segment segment{settings, 10, {}, {3, 4}};
  auto pinned = at::TensorOptions{at::kFloat}.pinned_memory(true);
  auto count = static_cast<int64_t>(segment.layout().count());
  auto weights = at::rand({count}, pinned);
  auto gradient = at::empty({count}, pinned);
  auto inputs = at::rand({2, 1, 28, 28}, pinned);
  auto read = 0.0;
  for (int i = 0; i < 2; ++i) {
    stem.begin({weights, gradient, {}});
    segment.begin({weights, gradient, {}});
    auto first = stem.forward(inputs, {}, true);
    auto next = segment.forward(first.outputs, {}, true);
    read += next.outputs.sum().item<double>();
    auto back = segment.backward(next, at::ones_like(next.outputs), {}, scale);
    read += back.sum().item<double>();
    stem.backward(first, back, {}, scale);
    read += gradient.sum().item<double>();
    stem.end();
    segment.end();
    std::atomic<bool> cancel = true;
    stem.begin({weights, gradient, {}, &cancel});
    try {
      stem.forward(inputs, {}, true);
    } catch (const cancelled&) {
      stem.end();
    }
    inputs.zero_();
    weights.mul_(0.999);
    gradient.zero_();
  }
  testing::print_dependencies(0, read);
} catch (const std::exception& err) {
  std::fprintf(stderr, "%s\n", err.what());
  return 1;
}
