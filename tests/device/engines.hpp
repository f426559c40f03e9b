#pragma once
// The same batch for an engine on the CPU and one on a device: the fake one,
// which has the CPU's bits, or with TROUPE_CUDA_LIBRARY a GPU, which adds up in
// another order; `./dev gpu` reads the errors that are printed then. Used on
// the test's thread.

#include "models/engine/compute.hpp"
#include "models/scalar.hpp"
#include "tests/device/open_device.hpp"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/TensorOperators.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/rand.h>
#include <ATen/ops/randint.h>
#include <catch2/catch_test_macros.hpp>
#include <dlfcn.h>

#include <cmath>
#include <cstdio>
#include <string>

namespace troupe::testing {

using models::batch_context;
using models::compute_engine;
using test::open_device;

inline bool is_fake() {
  return dlsym(RTLD_DEFAULT, "fake_cuda_dependencies") != nullptr;
}

/// Of a GPU's gradients, relative to the CPU's. Rounding puts a value beside
/// zero on the other side of a ReLU now and then: with the six samples here one
/// such makes 0.002 in ResNet-18.
inline double tolerance_of(const at::Tensor& x) {
  return x.scalar_type() == at::kDouble ? 1e-10 : 1e-2;
}

/// Of a GPU's losses, likewise: there are no jumps in it.
constexpr double loss_tolerance = 1e-4;

inline void check_close(double expected, double found, double tolerance) {
  if (is_fake())
    CHECK(expected == found);
  else
    CHECK(std::abs(expected - found) <= tolerance * std::abs(expected));
}

/// @param name Of the figure that a GPU's error becomes.
inline void check_gradient(const at::Tensor& expected, const at::Tensor& found,
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

inline config::training_settings settings_of(const std::string& network,
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
    auto type = models::to_aten(settings.dtype);
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

} // namespace troupe::testing
