// fp16 on a device: gradients that leave are finite and without the scale of
// the loss, and an overflow is computed again.

#include "config/text/failure.hpp"
#include "models/engine/loss_scale.hpp"
#include "tests/device/engines.hpp"

#include <ATen/ops/isfinite.h>
#include <ATen/ops/norm.h>
#include <ATen/ops/sub.h>
#include <catch2/catch_approx.hpp>
#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_exception.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>

#include <vector>

using namespace troupe;
using namespace troupe::models;
using Catch::Approx;
using Catch::Matchers::ContainsSubstring;
using Catch::Matchers::MessageMatches;
using troupe::testing::engines;
using troupe::testing::settings_of;

namespace {

/// An engine in fp16 on the device, beside the CPU's in float32.
struct half_precision {
  explicit half_precision(const std::string& network, int64_t channels = 1,
                          int64_t edge = 28)
    : plain(settings_of(network, "cpu"), channels, edge),
      engine(in_fp16(network), 10) {
    // nop
  }

  static config::training_settings in_fp16(const std::string& network) {
    auto out = settings_of(network, "cuda:0");
    out.autocast = config::autocast_kind::fp16;
    return out;
  }

  gradient_result run(const batch_context& about = {}) {
    return engine.run(plain.weights, plain.inputs, plain.targets, plain.found,
                      about);
  }

  /// Of the gradient, beside its norm in float32.
  double error() const {
    return at::norm(at::sub(plain.found, plain.expected)).item<double>() /
           at::norm(plain.expected).item<double>();
  }

  /// Makes gradients that overflow at the first scale, but not at the least.
  void enlarge_inputs() { plain.inputs.mul_(1000); }

  engines plain;
  compute_engine engine;
};

} // namespace

TEST_CASE("the scale of a loss follows overflows as GradScaler's does") {
  loss_scale scale;
  CHECK(scale.value() == 65536);
  scale.overflow();
  CHECK(scale.value() == 32768);
  for (int i = 0; i < 1999; ++i)
    scale.succeed();
  scale.overflow();
  CHECK(scale.value() == 16384);
  for (int i = 0; i < 1999; ++i)
    scale.succeed();
  CHECK(scale.value() == 16384);
  scale.succeed();
  CHECK(scale.value() == 32768);
  for (int i = 0; i < 15; ++i)
    scale.overflow();
  CHECK(scale.value() == 1);
  CHECK_THROWS_MATCHES(
    scale.overflow(), run_error,
    MessageMatches(ContainsSubstring("lower the learning rate")));
}

TEST_CASE("a gradient in fp16 leaves without the scale") {
  half_precision half{"lenet"};
  auto& plain = half.plain;
  auto wanted =
    plain.host.run(plain.weights, plain.inputs, plain.targets, plain.expected);
  auto found = half.run();
  CHECK(found.scale == 65536);
  CHECK(found.overflows == 0);
  CHECK(found.loss == Approx(wanted.loss).epsilon(1e-3));
  CHECK(found.loss != wanted.loss);
  CHECK(half.error() < 0.01);
  CHECK(half.run().scale == 65536);
}

TEST_CASE("a batch whose gradient overflows is computed again") {
  half_precision half{"resnet18", 3, 32};
  half.enlarge_inputs();
  std::vector<uint64_t> told;
  batch_context about;
  about.ready = [&](uint64_t first) {
    told.push_back(first);
  };
  auto found = half.run(about);
  CHECK(found.overflows > 0);
  CHECK(*found.scale == 65536 / std::exp2(found.overflows));
  CHECK(told == std::vector<uint64_t>{0});
  CHECK(at::isfinite(half.plain.found).all().item<bool>());
  SECTION("from the same statistics, and the next one at the smaller scale") {
    auto first = half.plain.found.clone();
    auto again = half.run();
    CHECK(again.overflows == 0);
    CHECK(again.scale == found.scale);
    CHECK(again.loss == found.loss);
    CHECK(at::equal(half.plain.found, first));
  }
}

TEST_CASE("fp16 that never stops overflowing is one line") {
  half_precision half{"lenet"};
  half.plain.inputs.mul_(1e6); // Infinite in fp16.
  CHECK_THROWS_MATCHES(
    half.run(), run_error,
    MessageMatches(ContainsSubstring("even with a loss scale of 1")));
}

TEST_CASE("fp16 adds up micro-batches, and can be cancelled") {
  auto settings = half_precision::in_fp16("lenet");
  settings.micro_batch_size = 2;
  half_precision half{"lenet"};
  half.engine = compute_engine{settings, 10};
  auto& plain = half.plain;
  plain.host.run(plain.weights, plain.inputs, plain.targets, plain.expected);
  std::atomic<bool> cancel = true;
  CHECK(half.run({.cancel = &cancel}).cancelled);
  CHECK(half.run().overflows == 0);
  CHECK(half.error() < 0.01);
}

TEST_CASE("fp16 without a GPU is one line") {
  auto settings = settings_of("lenet", "cpu");
  settings.autocast = config::autocast_kind::fp16;
  CHECK_THROWS_MATCHES(
    require_gpu_for_fp16(settings), run_error,
    MessageMatches(ContainsSubstring("--autocast fp16 needs a GPU")));
  half_precision half{"lenet"};
  half.engine = compute_engine{settings, 10};
  CHECK_THROWS_MATCHES(
    half.run(), run_error,
    MessageMatches(ContainsSubstring("--autocast fp16 needs a GPU")));
}
