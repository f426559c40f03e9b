// A few steps of a server on the fake device: their gradients are made on one
// stream, versions are read on another, and the host copies the last one, and
// the optimiser's state before it; nothing else waits. Prints the numbers of
// the first thing that was made to wait and of the last. Ends with 0 if all was
// in order.

#include "actors/runtime/tensor_payload.hpp"
#include "actors/weights/server_model.hpp"
#include "models/device/accelerator.hpp"
#include "tests/device/dependencies.hpp"

#include <ATen/ops/full_like.h>
#include <c10/core/StreamGuard.h>
#include <c10/core/impl/VirtualGuardImpl.h>

#include <cstdio>
#include <exception>
#include <vector>

int main() try {
  using namespace troupe;
  models::open_cuda();
  config::training_settings settings;
  settings.network = "mnist_net";
  settings.device = "cuda:0";
  shared_work alone;
  alone.remote_readers = false;
  server_model server{settings, 10, heap_memory(), alone};
  auto before = testing::dependencies();
  c10::Device gpu{c10::kCUDA, 0};
  c10::impl::VirtualGuardImpl device{gpu.type()};
  auto readers = device.getStreamFromGlobalPool(gpu);
  auto makers = device.getStreamFromGlobalPool(gpu);
  auto make_numbers = [&] {
    return at::full_like(server.newest_flat(), 0.5);
  };
  uint64_t makes = 0;
  auto step = [&] {
    std::vector<payload> gradients;
    {
      c10::StreamGuard guard{makers};
      gradients.push_back(to_payload(make_numbers()));
    }
    std::vector<double> shares{8};
    server.step(version{++makes}, std::move(gradients), shares, {0.1});
  };
  std::vector<at::Tensor> seen;
  auto read = [&](const payload& weights) {
    c10::StreamGuard guard{readers};
    seen.push_back(to_tensor(weights, gpu).mul(2));
  };
  step();
  read(server.newest());
  step(); // In place, after the reader.
  auto held = server.newest();
  read(held);
  step(); // In other memory.
  held = server.newest();
  read(held);
  snapshot saved;
  server.save(saved);
  step(); // In that of the version that was held first, and in the slots.
  auto slot = to_tensor(saved.slots.front().flat).sum().item<double>();
  c10::StreamGuard guard{makers};
  make_numbers(); // In that of the last gradient.
  auto sum = to_tensor(server.newest()).sum().item<double>();
  testing::print_dependencies(before, sum + slot);
} catch (const std::exception& err) {
  std::fprintf(stderr, "%s\n", err.what());
  return 1;
}
