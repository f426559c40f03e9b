// A training loop of the program's own that trains, and then does not return.

#include "actors/own_loop/training.hpp"

#include <ATen/ops/cross_entropy_loss.h>
#include <unistd.h>

#include <cstdio>

namespace {

const troupe::remote::register_training mine{[](troupe::remote::training& run) {
  auto net = run.module();
  troupe::remote::distributed_optimizer optimizer{net.parameters()};
  run.for_each_batch([&](troupe::remote::context& batch) {
    auto scores = net.forward(batch, batch.inputs());
    batch.backward(at::cross_entropy_loss(scores, batch.targets()));
    optimizer.step(batch);
  });
  std::puts("training is over");
  std::fflush(stdout);
  for (;;)
    pause();
}};

} // namespace
