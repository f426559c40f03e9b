// Gradients and scores on a device: on the fake one those of the CPU, bit for
// bit, with no access that an event does not order. With TROUPE_CUDA_LIBRARY on
// a GPU, which adds up in another order, within tolerances; `./dev gpu` reads
// the errors that are printed then.

#include "config/text/failure.hpp"
#include "models/engine/compute.hpp"
#include "models/scalar.hpp"
#include "tests/device/open_device.hpp"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/TensorOperators.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/rand.h>
#include <ATen/ops/randint.h>
#include <ATen/ops/zeros.h>
#include <c10/core/StreamGuard.h>
#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>
#include <dlfcn.h>

#include <cmath>
#include <cstdio>

using namespace troupe;
using namespace troupe::models;
using namespace troupe::test;

namespace {

bool is_fake() {
  return dlsym(RTLD_DEFAULT, "fake_cuda_dependencies") != nullptr;
}

/// Of a GPU's gradients, relative to the CPU's. Rounding puts a value beside
/// zero on the other side of a ReLU now and then: with the six samples here one
/// such makes 0.002 in ResNet-18.
double tolerance_of(const at::Tensor& x) {
  return x.scalar_type() == at::kDouble ? 1e-10 : 1e-2;
}

/// Of a GPU's losses, likewise: there are no jumps in it.
constexpr double loss_tolerance = 1e-4;

void check_close(double expected, double found, double tolerance) {
  if (is_fake())
    CHECK(expected == found);
  else
    CHECK(std::abs(expected - found) <= tolerance * std::abs(expected));
}

/// @param name Of the figure that a GPU's error becomes.
void check_gradient(const at::Tensor& expected, const at::Tensor& found,
                    const std::string& name) {
  if (is_fake()) {
    CHECK(at::equal(expected, found));
    return;
  }
  auto length = [](const at::Tensor& x) {
    return x.norm().item<double>();
  };
  auto error = length(expected - found) / length(expected);
  auto tolerance = tolerance_of(expected);
  std::printf("figure gradients/%s %.3g %g\n", name.c_str(), error, tolerance);
  CHECK(error <= tolerance);
}

config::training_settings settings_of(const std::string& network,
                                      const std::string& device) {
  config::training_settings out;
  out.network = network;
  out.device = device;
  return out;
}

/// One engine and the same on the device, with one batch.
struct engines {
  explicit engines(config::training_settings settings, int64_t channels = 1,
                   int64_t edge = 28)
    : host((open_device(), settings), 10),
      device((settings.device = "cuda:0", settings), 10),
      name(settings.network +
           (settings.dtype == config::scalar_type::float64 ? "/float64" : "")) {
    auto type = to_aten(settings.dtype);
    auto draws = at::make_generator<at::CPUGeneratorImpl>(7);
    inputs = at::rand({6, channels, edge, edge}, draws, type);
    targets = at::randint(10, {6}, draws, at::kLong);
    auto count = static_cast<int64_t>(host.layout().count());
    weights = at::empty({count}, type);
    host.initial_weights(weights, 1);
    expected = at::empty({count}, type);
    found = at::empty({count}, type);
  }

  void check_equal(const batch_context& about = {}) {
    auto a = host.run(weights, inputs, targets, expected, about);
    auto b = device.run(weights, inputs, targets, found, about);
    check_close(a.loss, b.loss, loss_tolerance);
    CHECK(a.samples == b.samples);
    check_gradient(expected, found, name);
  }

  compute_engine host;
  compute_engine device;
  std::string name;
  at::Tensor inputs, targets, weights, expected, found;
};

} // namespace

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
      [&, left = 2](at::Tensor& inputs, at::Tensor& targets) mutable {
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
  CHECK(b.samples == 12);
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
