// Gradients and scores on a device: those of the CPU, bit for bit, with no
// access that an event does not order.

#include "models/device/batch_copies.hpp"
#include "tests/device/engines.hpp"

#include <ATen/ops/empty_like.h>
#include <c10/core/StreamGuard.h>
#include <catch2/catch_test_macros.hpp>

#include <algorithm>
#include <cmath>
#include <vector>

using namespace troupe;
using namespace troupe::models;
using namespace troupe::testing;

TEST_CASE("a device computes the gradient of the CPU") {
  for (const auto* network : {"lenet", "mnist_net"}) {
    engines both{settings_of(network, "cpu")};
    for (int i = 0; i < 3; ++i)
      both.check_equal();
  }
}

TEST_CASE("a device normalises batches as the CPU does") {
  engines both{settings_of("resnet18", "cpu"), 3, 32};
  both.check_equal();
  both.check_equal();
}

TEST_CASE("a device drops the same activations out") {
  engines both{settings_of("vgg11", "cpu"), 3, 32};
  both.check_equal({.from = {lease_id{3}, 2, 64, 6}});
}

TEST_CASE("a device adds up the gradients of micro-batches") {
  auto settings = settings_of("lenet", "cpu");
  settings.micro_batch_size = 2;
  engines both{settings};
  both.check_equal();
}

TEST_CASE("a device computes in double precision") {
  auto settings = settings_of("lenet", "cpu");
  settings.dtype = config::scalar_type::float64;
  engines both{settings};
  both.check_equal();
}

TEST_CASE("a device computes in bfloat16") {
  auto settings = settings_of("lenet", "cpu");
  settings.autocast = config::autocast_kind::bf16;
  engines both{settings};
  auto a =
    both.host.run(both.weights, both.inputs, both.targets, both.expected);
  auto b = both.device.run(both.weights, both.inputs, both.targets, both.found);
  CHECK(std::abs(a.loss - b.loss) < (is_fake() ? 1e-3 : 1e-2));
  engines plain{settings_of("lenet", "cpu")};
  auto c =
    plain.device.run(both.weights, both.inputs, both.targets, both.found);
  CHECK(b.loss != c.loss);
}

TEST_CASE(
  "a device tells of pieces of a gradient that have arrived, in order") {
  engines both{settings_of("resnet18", "cpu"), 3, 32};
  std::vector<uint64_t> told;
  auto whole = both.host.layout().count();
  both.device.run(both.weights, both.inputs, both.targets, both.found,
                  {.ready = [&](uint64_t first) {
                    told.push_back(first);
                  }});
  CHECK(told.size() > 3);
  CHECK(told.front() < whole);
  CHECK(told.back() == 0);
  CHECK(std::is_sorted(told.rbegin(), told.rend()));
}

TEST_CASE("a device scores weights as the CPU does") {
  engines both{settings_of("resnet18", "cpu"), 3, 32};
  auto score = [&](compute_engine& by) {
    return by.evaluate(
      both.weights,
      [&, left = 4](at::Tensor& inputs, at::Tensor& targets) mutable {
        inputs = both.inputs;
        targets = both.targets;
        return left-- > 0;
      });
  };
  auto a = score(both.host);
  auto b = score(both.device);
  check_close(a.loss, b.loss, loss_tolerance);
  check_close(a.accuracy, b.accuracy, 0);
  check_close(a.accuracy_top5.value(), b.accuracy_top5.value(), 0);
  CHECK(b.samples == 24);
}

TEST_CASE("a device computes a batch that was copied ahead") {
  engines both{settings_of("lenet", "cpu")};
  batch_copies copies{c10::Device{c10::kCUDA, 0}};
  both.host.run(both.weights, both.inputs, both.targets, both.expected);
  auto ahead = copies.place(both.inputs, both.targets);
  auto next = copies.place(both.inputs, both.targets);
  for (const auto& batch : {ahead, next}) {
    auto found = both.device.run(both.weights, batch.inputs, batch.targets,
                                 both.found, {.arrived = batch.arrived});
    CHECK(found.samples == 6);
    check_gradient(both.expected, both.found, "ahead");
  }
}

TEST_CASE(
  "a cancel during a batch on a device ends it, and the next is whole") {
  engines both{settings_of("resnet18", "cpu"), 3, 32};
  std::atomic<bool> cancel = false;
  batch_context about;
  about.cancel = &cancel;
  about.ready = [&](uint64_t) {
    cancel = true;
  };
  CHECK(
    both.device.run(both.weights, both.inputs, both.targets, both.found, about)
      .cancelled);
  both.check_equal();
}

TEST_CASE("an evaluation on a device can be cancelled") {
  engines both{settings_of("lenet", "cpu")};
  std::atomic<bool> cancel = false;
  auto asked = 0;
  auto endless = [&](at::Tensor& inputs, at::Tensor& targets) {
    inputs = both.inputs;
    targets = both.targets;
    cancel = ++asked == 3;
    return true;
  };
  CHECK(both.device.evaluate(both.weights, endless, &cancel).cancelled);
  CHECK(asked == 3);
  both.check_equal();
}

TEST_CASE("a batch on a device can be cancelled") {
  engines both{settings_of("lenet", "cpu")};
  std::atomic<bool> cancel = true;
  CHECK(both.device
          .run(both.weights, both.inputs, both.targets, both.found,
               {.cancel = &cancel})
          .cancelled);
  both.check_equal();
}

TEST_CASE("a gradient stays on a device, and the weights that are there too") {
  engines both{settings_of("resnet18", "cpu"), 3, 32};
  both.host.run(both.weights, both.inputs, both.targets, both.expected);
  c10::StreamGuard guard{*both.device.stream()};
  auto weights = both.weights.to(both.device.device());
  auto gradient = at::empty_like(weights);
  auto run = [&] {
    return both.device.run(weights, both.inputs, both.targets, gradient);
  };
  CHECK(run().finite == true);
  check_gradient(both.expected, gradient.cpu(), "stays");
  weights[3] = std::nan("");
  CHECK(run().finite == false);
}
