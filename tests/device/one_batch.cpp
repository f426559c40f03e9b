// Computes a batch on the fake device and reads its gradient at once, twice,
// begins batches that are cancelled, and scores five; prints the numbers of the
// first thing that it made to wait and of the last. Ends with 0 if all was in
// order. With the argument fp16 in half precision, where the first one
// overflows.

#include "config/text/failure.hpp"
#include "models/device/accelerator.hpp"
#include "models/device/batch_copies.hpp"
#include "models/engine/compute.hpp"
#include "tests/device/dependencies.hpp"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/full.h>
#include <ATen/ops/rand.h>
#include <ATen/ops/randint.h>

#include <cstdio>
#include <exception>
#include <string_view>

int main(int argc, char** argv) try {
  using namespace troupe;
  using namespace troupe::models;
  open_cuda();
  // For the same overflows in each run.
  auto draws = at::make_generator<at::CPUGeneratorImpl>(1);
  config::training_settings settings;
  settings.network = "mnist_net";
  compute_engine on_host{settings, 10};
  settings.device = "cuda:0";
  auto half = argc > 1 && std::string_view{argv[1]} == "fp16";
  if (half)
    settings.autocast = config::autocast_kind::fp16;
  compute_engine engine{settings, 10};
  auto count = static_cast<int64_t>(engine.layout().count());
  auto pinned = at::TensorOptions{at::kFloat}.pinned_memory(true);
  auto weights = at::empty({count}, pinned);
  on_host.initial_weights(weights, 1);
  auto gradient = at::empty({count}, pinned);
  batch_copies copies{c10::Device{c10::kCUDA, 0}};
  auto read = 0.0;
  for (int i = 0; i < 2; ++i) {
    auto inputs = at::rand({2, 1, 28, 28}, draws, pinned);
    if (half && i == 0)
      inputs.mul_(4); // Once or twice: each time adds to what is waited for.
    auto targets = at::randint(10, {2}, draws, pinned.dtype(at::kLong));
    uint64_t there = engine.layout().count();
    batch_context about;
    about.ready = [&](uint64_t first) {
      // As a sender does with what has arrived.
      read += gradient
                .narrow(0, static_cast<int64_t>(first),
                        static_cast<int64_t>(there - first))
                .sum()
                .item<double>();
      there = first;
    };
    if (i == 0) {
      auto found = engine.run(weights, inputs, targets, gradient, about);
      if (half && found.overflows == 0)
        throw run_error("no gradient has overflowed");
    } else { // Copied ahead, as by the loader.
      auto batch = copies.place(inputs, targets);
      about.arrived = batch.arrived;
      engine.run(weights, batch.inputs, batch.targets, gradient, about);
    }
    read += gradient.sum().item<double>();
    // As the loader and the server do with memory that they get back.
    inputs.zero_();
    targets.zero_();
    weights.mul_(0.999);
    gradient.zero_();
    std::atomic<bool> cancel = true;
    engine.run(weights, inputs, targets, gradient, {.cancel = &cancel});
    weights.mul_(0.999);
  }
  // The source has two batches, which it fills in turn.
  at::Tensor all_inputs[] = {at::rand({2, 1, 28, 28}, draws, pinned),
                             at::rand({2, 1, 28, 28}, draws, pinned)};
  auto labels = at::randint(10, {2}, draws, pinned.dtype(at::kLong));
  auto left = 5;
  auto found =
    engine.evaluate(weights, [&](at::Tensor& inputs, at::Tensor& targets) {
      inputs = all_inputs[left % 2];
      inputs.add_(1);
      targets = labels;
      return left-- > 0;
    });
  read += found.loss;
  weights.zero_();
  testing::print_dependencies(0, read);
} catch (const std::exception& err) {
  std::fprintf(stderr, "%s\n", err.what());
  return 1;
}
