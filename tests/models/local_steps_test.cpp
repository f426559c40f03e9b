// Steps of a worker's own: what they make of weights, and the difference that
// is pushed in the end.

#include "models/layout/flat_pool.hpp"
#include "models/optim/local_steps.hpp"
#include "models/optim/optimizer.hpp"
#include "tests/support/optimizer_step.hpp"

#include <catch2/catch_test_macros.hpp>
#include <torch/torch.h>

#include <cmath>
#include <limits>

using namespace troupe;
using namespace troupe::models;
using namespace troupe::test;

namespace {

constexpr int64_t parameters = 1003;

flat_layout plain_layout() {
  return flat_layout::from({{"x", {1000}}, {"y", {3}}},
                           config::scalar_type::float32);
}

/// Of a network with batch normalisation, whose statistics lie behind.
flat_layout layout_with_norm() {
  torch::nn::Sequential net{torch::nn::Linear(8, 4), torch::nn::BatchNorm1d(4)};
  return flat_layout::from(*net);
}

config::training_settings local_settings(const std::string& inner) {
  config::training_settings out;
  out.local_steps = 4;
  out.inner_optimizer = inner;
  out.epochs = 10;
  return out;
}

/// The largest difference of each element, in units of the last place of the
/// larger of the weight and its step.
double ulps(const at::Tensor& a, const at::Tensor& b, const at::Tensor& w,
            const at::Tensor& step) {
  auto size = at::maximum(w.abs(), step.abs());
  auto ulp = at::nextafter(size, at::full_like(size, HUGE_VALF)) - size;
  return ((a - b).abs() / ulp).max().item<double>();
}

} // namespace

TEST_CASE("one step with sgd, applied with a rate of 1, is a plain step") {
  at::manual_seed(1);
  for (auto lr : {0.03, 0.7, 1e-4}) {
    auto inner =
      local_settings("sgd(momentum=0,lr=" + std::to_string(lr) + ")");
    local_steps uut{inner, plain_layout()};
    config::training_settings plain;
    plain.momentum = 0;
    auto today = make_optimizer(plain, plain_layout());
    plain.lr = 1;
    auto outer = make_optimizer(plain, plain_layout());
    auto by_rounds = at::randn({parameters});
    auto by_gradients = by_rounds.clone();
    for (int i = 0; i < 50; ++i) {
      by_rounds.copy_(by_gradients); // Each step alone.
      auto gradient = at::randn({parameters}) * (i % 2 == 0 ? 1 : 1e-3);
      uut.begin(by_rounds.clone(), nullptr);
      uut.step(gradient, {});
      auto difference = at::empty({parameters});
      uut.finish(difference);
      auto before = by_gradients.clone();
      step(*outer, by_rounds, difference, 1, 2);
      step(*today, by_gradients, gradient, lr, 2);
      CHECK(ulps(by_rounds, by_gradients, before, gradient * lr) <= 4);
    }
  }
}

TEST_CASE("the steps of a round are those of the optimiser, from round to "
          "round") {
  at::manual_seed(2);
  auto s = local_settings("adamw(lr=0.01,weight-decay=0.1)");
  config::training_settings same;
  same.optimizer = "adamw";
  same.weight_decay = 0.1;
  auto reference = make_optimizer(same, plain_layout());
  local_steps uut{s, plain_layout()};
  auto weights = at::randn({parameters});
  auto expected = weights.clone();
  std::shared_ptr<const inner_numbers> state;
  for (int round = 0; round < 3; ++round) {
    auto began = expected.clone();
    uut.begin(began, state);
    for (int i = 0; i < 4; ++i) {
      CHECK(at::equal(uut.weights(), expected));
      auto gradient = at::randn({parameters});
      uut.step(gradient, {});
      step(*reference, expected, gradient, 0.01, 2);
    }
    auto difference = at::empty({parameters});
    uut.finish(difference);
    CHECK(at::equal(difference, began - expected));
    state = uut.copy_state();
    CHECK(state->steps == 4u * (round + 1));
  }
}

TEST_CASE("a round that is given up leaves no trace in the optimiser") {
  at::manual_seed(3);
  local_steps uut{local_settings("sgd(momentum=0.9)"), plain_layout()};
  auto weights = at::randn({parameters});
  auto gradient = at::randn({parameters});
  auto round_from = [&](const auto& state) {
    uut.begin(weights, state);
    uut.step(gradient, {});
    auto out = at::empty({parameters});
    uut.finish(out);
    return out;
  };
  round_from(nullptr);
  auto state = uut.copy_state();
  auto first = round_from(state);
  uut.begin(weights, state);
  uut.step(at::randn({parameters}), {}); // Cancelled here.
  CHECK(at::equal(round_from(state), first));
  CHECK(!at::equal(round_from(nullptr), first));
}

TEST_CASE("a copy of the state may take the memory of an earlier one") {
  local_steps uut{local_settings("adamw"), plain_layout()};
  uut.begin(at::zeros({parameters}), nullptr);
  uut.step(at::ones({parameters}), {});
  auto spare = std::make_shared<inner_numbers>();
  auto* memory = spare.get();
  auto copy = uut.copy_state(std::move(spare));
  CHECK(copy.get() == memory);
  CHECK(copy->steps == 1);
  REQUIRE(copy->slots.size() == 2);
  CHECK(copy->slots[0].name == "exp_avg");
  CHECK(copy->slots[0].flat.numel() == parameters);
}

TEST_CASE("running statistics are the newest ones, as they are") {
  auto layout = layout_with_norm();
  auto count = static_cast<int64_t>(layout.count());
  local_steps uut{local_settings("sgd"), layout};
  auto weights = at::ones({count});
  uut.begin(weights, nullptr);
  for (float x : {5.F, 7.F}) {
    auto gradient = at::zeros({count});
    layout.statistics_of(gradient).fill_(x);
    uut.step(gradient, {});
    CHECK(layout.statistics_of(uut.weights()).eq(x).all().item<bool>());
  }
  auto difference = at::empty({count});
  uut.finish(difference);
  CHECK(layout.statistics_of(difference).eq(7).all().item<bool>());
  CHECK(layout.parameters_of(difference).eq(0).all().item<bool>());
  CHECK(weights.eq(1).all().item<bool>());
}

TEST_CASE("weights that come after some steps are merged, and the difference "
          "is to them") {
  at::manual_seed(6);
  auto s = local_settings("sgd(lr=0.1,momentum=0.9)");
  s.overlap_steps = 2;
  local_steps uut{s, plain_layout()};
  auto step = [&uut] {
    uut.step(at::randn({parameters}), {});
  };
  auto given = at::randn({parameters});
  uut.begin(given, nullptr);
  step();
  auto difference = at::empty({parameters});
  uut.finish(difference);
  CHECK(at::equal(difference, given - uut.weights()));
  uut.go_on(uut.copy_state());
  for (uint64_t early : {0, 1, 2}) {
    for (uint64_t i = 0; i < early; ++i)
      step();
    auto numbers = at::randn({parameters});
    auto expected = early == 0 ? numbers : (uut.weights() + numbers) / 2;
    uut.merge(0, numbers, early);
    CHECK(at::equal(uut.weights(), expected));
    step();
    uut.finish(difference);
    CHECK(at::equal(difference, numbers - uut.weights()));
    uut.go_on(uut.copy_state());
  }
}

TEST_CASE("statistics are merged, too, unless workers have their own") {
  auto layout = layout_with_norm();
  auto count = static_cast<int64_t>(layout.count());
  for (auto rule : {config::buffers_rule::average, config::buffers_rule::local})
    for (uint64_t early : {0, 1}) {
      auto s = local_settings("sgd");
      s.overlap_steps = 1;
      s.buffers = rule;
      local_steps uut{s, layout};
      uut.begin(at::ones({count}), nullptr);
      auto gradient = at::zeros({count});
      layout.statistics_of(gradient).fill_(6);
      uut.step(gradient, {});
      uut.merge(0, at::full({count}, 2), early);
      auto merged = early == 0 ? 2 : 4;
      auto expected = rule == config::buffers_rule::local ? 6 : merged;
      CHECK(
        layout.statistics_of(uut.weights()).eq(expected).all().item<bool>());
    }
}

TEST_CASE("gradients of local steps are clipped, and rates follow their own "
          "schedule") {
  auto s = local_settings("sgd(lr=1,momentum=0,clip-norm=2)");
  s.inner_lr_schedule = "step(every=2,factor=0.5)";
  local_steps uut{s, plain_layout()};
  uut.begin(at::zeros({parameters}), nullptr);
  auto gradient = at::zeros({parameters});
  gradient[0] = 8;
  uut.step(gradient, {0.5, 3});
  CHECK(std::abs(uut.weights()[0].item<float>() + 2) < 1e-5);
  uut.step(gradient, {2.5, 4});
  CHECK(std::abs(uut.weights()[0].item<float>() + 3) < 1e-5);
}

TEST_CASE("lamb makes local steps, too") {
  at::manual_seed(4);
  config::training_settings same;
  same.optimizer = "lamb";
  same.epsilon = 1e-6;
  auto reference = make_optimizer(same, plain_layout());
  local_steps uut{local_settings("lamb(lr=0.01)"), plain_layout()};
  auto weights = at::randn({parameters});
  auto expected = weights.clone();
  uut.begin(weights, nullptr);
  auto gradient = at::randn({parameters});
  uut.step(gradient, {});
  step(*reference, expected, gradient, 0.01, 2);
  CHECK(at::equal(uut.weights(), expected));
}

TEST_CASE("numbers that are not finite are in the difference") {
  local_steps uut{local_settings("sgd"), plain_layout()};
  uut.begin(at::zeros({parameters}), nullptr);
  uut.step(at::full({parameters}, std::numeric_limits<float>::infinity()), {});
  auto difference = at::empty({parameters});
  uut.finish(difference);
  CHECK(!difference.isfinite().any().item<bool>());
}

// Liu et al. 2024, arXiv:2401.09135, with c = 0: the formula as written there.
TEST_CASE("delayed Nesterov steps as in the paper") {
  at::manual_seed(5);
  constexpr int period = 4;
  constexpr double lr = 0.7, beta = 0.9;
  config::training_settings s;
  s.dtype = config::scalar_type::float64;
  s.momentum = beta;
  s.nesterov = true;
  auto layout = flat_layout::from({{"x", {100}}}, s.dtype);
  auto uut = make_optimizer(s, layout);
  auto weights = at::randn({100}, at::kDouble);
  auto expected = weights.clone();
  auto momentum = at::zeros({100}, at::kDouble);
  auto sum = at::zeros({100}, at::kDouble);
  for (int t = 0; t < 5 * period; ++t) {
    auto gradient = at::randn({100}, at::kDouble);
    sum += gradient;
    if ((t + 1) % period == 0) {
      momentum = beta * momentum + sum / period;
      expected = expected - lr * (beta * momentum + gradient / period);
      sum.zero_();
    } else {
      expected = expected - lr * gradient / period;
    }
    uut->use_momentum({t % period == 0, t % period == period - 1});
    step(*uut, weights, gradient, lr / period);
    CHECK(at::allclose(weights, expected, 1e-12, 1e-12));
  }
}
