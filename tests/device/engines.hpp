#pragma once
// The same batch for an engine on the CPU and one on the fake device. Used on
// the test's thread.

#include "models/engine/compute.hpp"
#include "models/scalar.hpp"
#include "tests/device/open_fake.hpp"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/rand.h>
#include <ATen/ops/randint.h>
#include <catch2/catch_test_macros.hpp>

#include <string>

namespace troupe::testing {

using models::batch_context;
using models::compute_engine;

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
    : host((open_fake(), settings), 10),
      device((settings.device = "cuda:0", settings), 10) {
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
    CHECK(a.loss == b.loss);
    CHECK(a.samples == b.samples);
    CHECK(at::equal(expected, found));
  }

  compute_engine host;
  compute_engine device;
  at::Tensor inputs, targets, weights, expected, found;
};

} // namespace troupe::testing
