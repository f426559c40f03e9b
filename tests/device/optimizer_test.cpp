// Steps of optimisers on a device: those of the CPU, to rounding.

#include "config/text/failure.hpp"
#include "models/engine/statistics.hpp"
#include "models/optim/aggregate.hpp"
#include "models/optim/clipping.hpp"
#include "tests/device/open_device.hpp"
#include "tests/support/error_line.hpp"
#include "tests/support/optimizer_step.hpp"

#include <ATen/ops/allclose.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/full.h>
#include <ATen/ops/full_like.h>
#include <ATen/ops/randn.h>
#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>

#include <limits>

using namespace troupe;
using namespace troupe::models;
using namespace troupe::test;

namespace {

using settings = config::training_settings;

/// Three parameters, of which the last has no decay.
const std::vector<std::pair<std::string, std::vector<int64_t>>> net{
  {"a", {3'000}}, {"b", {10, 100}}, {"c.bias", {3}}};
constexpr int64_t count = 4'003;

/// The same optimiser twice, with weights for each.
struct optimizers {
  explicit optimizers(settings s)
    : layout(flat_layout::from(net, s.dtype)), lr(s.lr) {
    open_device();
    host = make_optimizer(s, layout);
    s.device = "cuda:0";
    device = make_optimizer(s, layout);
    weights = at::randn({count}, to_aten(s.dtype));
    near = weights.to(c10::Device{c10::kCUDA, 0});
    tolerance = s.dtype == config::scalar_type::float32 ? 3e-6 : 1e-13;
  }

  /// One step of both on new gradients.
  void step_both(size_t gradients, bool in_place) {
    std::vector<at::Tensor> here;
    std::vector<at::Tensor> there;
    std::vector<double> shares;
    for (size_t i = 0; i < gradients; ++i) {
      here.push_back(at::randn({count}, weights.options()));
      there.push_back(here.back().to(near.device()));
      shares.push_back(64 - 7. * static_cast<double>(i));
    }
    test::step(*host, weights, weights, here, shares, lr, net.size());
    auto next = in_place ? near : at::full_like(near, 1e30);
    test::step(*device, next, near, there, shares, lr, net.size());
    near = next;
  }

  bool close(const at::Tensor& x, const at::Tensor& y) const {
    return at::allclose(x.cpu(), y.cpu(), tolerance, tolerance);
  }

  void check_equal() const {
    CHECK(close(near, weights));
    auto a = host->slots();
    auto b = device->slots();
    REQUIRE(a.size() == b.size());
    for (size_t i = 0; i < a.size(); ++i) {
      INFO("slot " << a[i].name);
      CHECK(a[i].name == b[i].name);
      CHECK(close(a[i].flat, b[i].flat));
    }
    CHECK(device->steps() == host->steps());
  }

  flat_layout layout;
  double lr;
  std::unique_ptr<optimizer> host, device;
  at::Tensor weights, near;
  double tolerance;
};

settings optimizer_settings(const char* name) {
  auto s = adam_settings(name);
  s.weight_decay_exclude = config::decay_exclusion::bias;
  return s;
}

} // namespace

TEST_CASE("an optimiser on a device steps as on the CPU", "[optimizer]") {
  auto s =
    optimizer_settings(GENERATE("sgd", "adam", "adamw", "lamb", "adagrad"));
  s.dtype =
    GENERATE(config::scalar_type::float32, config::scalar_type::float64);
  s.ema_decay = GENERATE(0.0, 0.9);
  optimizers both{s};
  both.step_both(1, true);
  both.step_both(3, false);
  both.step_both(2, true);
  both.check_equal();
}

TEST_CASE("sgd on a device has every kind of momentum", "[optimizer]") {
  auto s = optimizer_settings("sgd");
  s.momentum = GENERATE(0.0, 0.9);
  s.nesterov = s.momentum > 0 && GENERATE(false, true);
  s.weight_decay = GENERATE(0.0, 0.01);
  s.ema_decay = 0.5;
  optimizers both{s};
  for (size_t gradients : {1, 2, 1})
    both.step_both(gradients, gradients == 1);
  both.check_equal();
}

TEST_CASE("an optimiser on a device goes on from one on the CPU, and back",
          "[optimizer]") {
  auto s = optimizer_settings(GENERATE("sgd", "adamw", "lamb", "adagrad"));
  optimizers both{s};
  both.step_both(1, true);
  both.device->load(both.host->slots(), both.host->steps());
  both.step_both(2, true);
  both.check_equal();
  auto slots = both.device->slots();
  for (auto& slot : slots)
    slot.flat = slot.flat.cpu();
  both.host->load(slots, both.device->steps());
  both.step_both(1, true);
  both.check_equal();
}

TEST_CASE("an optimiser of somebody's own has no step on a device",
          "[optimizer]") {
  open_device();
  auto s = optimizer_settings("sgd");
  s.device = "cuda:0";
  CHECK_THROWS_AS(
    make_optimizer((s.optimizer = "lion", s),
                   flat_layout::from(net, config::scalar_type::float32)),
    usage_error);
}

TEST_CASE("gradients on a device have the CPU's norm, clipped as there") {
  open_device();
  std::vector<at::Tensor> here{at::randn({count}), at::randn({count})};
  std::vector<at::Tensor> there;
  for (const auto& x : here)
    there.push_back(x.to(last_device()));
  std::vector<double> shares{8, 5};
  auto expected = squares_of_mean(here, shares).value();
  auto found = squares_of_mean(there, shares).value();
  CHECK(std::abs(found - expected) < 1e-5 * expected);
}

TEST_CASE("one number that is not finite is found on a device") {
  open_device();
  auto x = at::full({count}, std::numeric_limits<float>::max())
             .to(c10::Device{c10::kCUDA, 0});
  CHECK(all_finite(x));
  for (auto bad : {std::numeric_limits<float>::quiet_NaN(),
                   std::numeric_limits<float>::infinity(),
                   -std::numeric_limits<float>::infinity()}) {
    auto y = x.clone();
    y[count - 1] = bad;
    CHECK_FALSE(all_finite(y));
  }
  CHECK(all_finite(x.narrow(0, 0, 0)));
}

TEST_CASE("running statistics are merged on a device as on the CPU") {
  open_device();
  constexpr auto infinite = std::numeric_limits<float>::infinity();
  auto rule =
    GENERATE(config::buffers_rule::average, config::buffers_rule::first);
  std::vector<at::Tensor> here{at::randn({6}), at::randn({6}), at::randn({6})};
  here[0][0] = infinite;
  for (auto& x : here) {
    x[1] = 0.1f;      // The same in all.
    x[2] = -infinite; // Finite in none.
  }
  std::vector<double> shares{1, 2, 4};
  std::vector<at::Tensor> there;
  for (const auto& x : here)
    there.push_back(x.to(c10::Device{c10::kCUDA, 0}));
  auto expected = at::full({6}, 7.f);
  auto found = expected.to(there[0].device());
  merge_statistics(rule, expected, here, shares);
  merge_statistics(rule, found, there, shares);
  CHECK(at::allclose(found.cpu(), expected, 1e-6, 1e-6));
  CHECK(found.cpu()[1].item<float>() == 0.1f);
  CHECK_FALSE(stays_finite(there[1], there[0]));
  CHECK(stays_finite(there[0], there[1]));
}
