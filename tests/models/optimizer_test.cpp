#include "config/report/memory.hpp"
#include "config/text/failure.hpp"
#include "models/layout/flat_pool.hpp"
#include "models/optim/optimizer.hpp"
#include "tests/support/error_line.hpp"
#include "tests/support/optimizer_step.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <torch/torch.h>

#include <cmath>
#include <functional>

using namespace troupe;
using namespace troupe::models;
using namespace troupe::test;

namespace {

using settings = config::training_settings;
using reference_factory =
  std::function<std::unique_ptr<torch::optim::Optimizer>(at::Tensor)>;

constexpr int64_t count = 1003;
constexpr int steps = 20;

flat_layout layout_of(config::scalar_type dtype) {
  return flat_layout::from({{"x", {count}}}, dtype);
}

/// The learning rate changes on the way, as a schedule changes it.
double lr_at(const settings& s, int step) {
  return step < 10 ? s.lr : s.lr / 2;
}

void check_like_pytorch(settings s, const reference_factory& make_reference) {
  for (auto dtype :
       {config::scalar_type::float32, config::scalar_type::float64}) {
    auto uut = make_optimizer(s, layout_of(dtype));
    auto weights = at::randn({count}, to_aten(dtype));
    auto parameter = weights.clone().requires_grad_();
    auto reference = make_reference(parameter);
    for (int i = 0; i < steps; ++i) {
      auto gradient = at::randn({count}, to_aten(dtype));
      auto kept = gradient.clone();
      parameter.mutable_grad() = gradient.clone();
      for (auto& group : reference->param_groups()) {
        group.options().set_lr(lr_at(s, i));
      }
      reference->step();
      step(*uut, weights, gradient, lr_at(s, i));
      CHECK(at::equal(gradient, kept));
    }
    CHECK(uut->steps() == steps);
    auto tolerance = dtype == config::scalar_type::float32 ? 2e-6 : 1e-14;
    CHECK(at::allclose(weights, parameter.detach(), tolerance, tolerance));
  }
}

} // namespace

TEST_CASE("sgd steps like torch.optim.SGD", "[optimizer]") {
  settings s;
  s.lr = 0.1;
  s.momentum = GENERATE(0.0, 0.9);
  s.weight_decay = GENERATE(0.0, 0.01);
  s.nesterov = s.momentum > 0 && GENERATE(false, true);
  check_like_pytorch(s, [&](at::Tensor x) {
    return std::make_unique<torch::optim::SGD>(std::vector{x},
                                               torch::optim::SGDOptions(s.lr)
                                                 .momentum(s.momentum)
                                                 .weight_decay(s.weight_decay)
                                                 .nesterov(s.nesterov));
  });
}

TEST_CASE("adam steps like torch.optim.Adam", "[optimizer]") {
  auto s = adam_settings("adam");
  check_like_pytorch(s, [&](at::Tensor x) {
    return std::make_unique<torch::optim::Adam>(
      std::vector{x}, torch::optim::AdamOptions(s.lr)
                        .betas({s.beta1, s.beta2})
                        .eps(s.epsilon)
                        .weight_decay(s.weight_decay));
  });
}

TEST_CASE("adamw steps like torch.optim.AdamW", "[optimizer]") {
  auto s = adam_settings("adamw");
  check_like_pytorch(s, [&](at::Tensor x) {
    return std::make_unique<torch::optim::AdamW>(
      std::vector{x}, torch::optim::AdamWOptions(s.lr)
                        .betas({s.beta1, s.beta2})
                        .eps(s.epsilon)
                        .weight_decay(s.weight_decay));
  });
}

TEST_CASE("adagrad steps like torch.optim.Adagrad", "[optimizer]") {
  auto s = adam_settings("adagrad");
  check_like_pytorch(s, [&](at::Tensor x) {
    return std::make_unique<torch::optim::Adagrad>(
      std::vector{x},
      torch::optim::AdagradOptions(s.lr).eps(s.epsilon).weight_decay(
        s.weight_decay));
  });
}

TEST_CASE("an average of the weights is that of torch's AveragedModel",
          "[optimizer]") {
  settings s;
  s.optimizer = GENERATE("sgd", "adamw", "lamb");
  s.momentum = GENERATE(0.0, 0.9);
  s.ema_decay = 0.9;
  auto uut = make_optimizer(s, layout_of(config::scalar_type::float32));
  auto weights = at::randn({count});
  at::Tensor expected;
  for (int i = 0; i < 6; ++i) {
    step(*uut, weights, at::randn({count}), s.lr);
    expected =
      i == 0 ? weights.clone() : at::lerp(expected, weights, 1 - s.ema_decay);
  }
  auto slots = uut->slots();
  CHECK(slots.back().name == "ema");
  CHECK(at::allclose(slots.back().flat, expected, 1e-6, 1e-7));
  CHECK(slots.size() == config::slots_of(s));
}

TEST_CASE("an optimiser goes on from its saved state", "[optimizer]") {
  auto layout = layout_of(config::scalar_type::float32);
  settings s;
  s.optimizer = GENERATE("sgd", "adam", "adamw", "lamb", "adagrad");
  s.ema_decay = GENERATE(0.0, 0.9);
  auto first = make_optimizer(s, layout);
  auto weights = at::randn({count});
  for (int i = 0; i < 3; ++i) {
    step(*first, weights, at::randn({count}), s.lr);
  }
  auto second = make_optimizer(s, layout);
  second->load(first->slots(), first->steps());
  auto same_weights = weights.clone();
  auto gradient = at::randn({count});
  step(*first, weights, gradient, s.lr);
  step(*second, same_weights, gradient, s.lr);
  CHECK(at::equal(weights, same_weights));
  for (size_t i = 0; i < first->slots().size(); ++i)
    CHECK(at::equal(first->slots()[i].flat, second->slots()[i].flat));
  CHECK(second->steps() == 4);
}

TEST_CASE("a step on many gradients is one on their mean", "[optimizer]") {
  // Several blocks, the last of them short.
  constexpr int64_t n = 40'003;
  auto dtype =
    GENERATE(config::scalar_type::float32, config::scalar_type::float64);
  auto layout = flat_layout::from({{"x", {n}}}, dtype);
  settings s;
  s.optimizer = GENERATE("sgd", "adam", "adamw", "lamb", "adagrad");
  s.momentum = 0.9;
  s.weight_decay = 0.01;
  auto uut = make_optimizer(s, layout);
  auto reference = make_optimizer(s, layout);
  auto weights = at::randn({n}, to_aten(dtype));
  auto expected = weights.clone();
  for (size_t parts : {3, 1, 7}) {
    std::vector<at::Tensor> gradients;
    std::vector<double> shares;
    auto mean = at::zeros({n}, to_aten(dtype));
    double total = 0;
    for (size_t i = 0; i < parts; ++i) {
      shares.push_back(64 - 7 * i);
      gradients.push_back(at::randn({n}, to_aten(dtype)));
      mean += gradients[i] * shares[i];
      total += shares[i];
    }
    mean /= total;
    auto before = weights.clone();
    auto next = at::full({n}, 1e30, to_aten(dtype));
    step(*uut, next, weights, gradients, shares, s.lr);
    CHECK(at::equal(weights, before));
    weights = next;
    step(*reference, expected, mean, s.lr);
    CHECK(at::allclose(weights, expected, 1e-5, 1e-6));
  }
}

TEST_CASE("weights that leave the caches have the same bits", "[optimizer]") {
  // Memory that is not aligned is written without streaming.
  constexpr int64_t n = 2'000'003;
  settings s;
  s.optimizer = GENERATE("sgd", "adam", "lamb", "adagrad");
  auto layout = flat_layout::from({{"x", {n}}}, config::scalar_type::float32);
  flat_pool memory{n, config::scalar_type::float32};
  auto streamed = memory.take_tensor();
  flat_pool larger{n + 1, config::scalar_type::float32};
  auto stored = larger.take_tensor().narrow(0, 1, n);
  auto current = at::randn({n});
  std::vector<at::Tensor> gradients{at::randn({n}), at::randn({n})};
  std::vector<double> shares{64, 32};
  for (const auto& next : {streamed, stored}) {
    auto uut = make_optimizer(s, layout);
    step(*uut, next, current, gradients, shares, s.lr);
  }
  CHECK(at::equal(streamed, stored));
}

TEST_CASE("a step that cannot be made changes nothing", "[optimizer]") {
  settings s;
  auto uut = make_optimizer(s, layout_of(config::scalar_type::float32));
  std::vector<at::Tensor> gradients{at::randn({count}), at::randn({count})};
  std::vector<double> none{0, 0};
  auto weights = at::zeros({count});
  CHECK_THROWS_AS(uut->step(weights, weights, gradients, none, 0.1), run_error);
  CHECK_THROWS_AS(uut->step(weights, weights, {}, {}, 0.1), run_error);
  CHECK(uut->steps() == 0);
  CHECK(weights.eq(0).all().item<bool>());
  CHECK(uut->slots()[0].flat.eq(0).all().item<bool>());
}

TEST_CASE("the plan counts the slots that an optimiser has", "[optimizer]") {
  for (const auto& name : optimizer_names())
    for (double momentum : {0.0, 0.9}) {
      settings s;
      s.optimizer = name;
      s.momentum = momentum;
      CHECK(config::slots_of(s) ==
            make_optimizer(s, layout_of(config::scalar_type::float32))
              ->slots()
              .size());
    }
}

TEST_CASE("slots have PyTorch's names", "[optimizer]") {
  auto names = [](const char* optimizer, double momentum) {
    settings s;
    s.optimizer = optimizer;
    s.momentum = momentum;
    std::vector<std::string> result;
    for (const auto& slot :
         make_optimizer(s, layout_of(config::scalar_type::float32))->slots()) {
      result.push_back(slot.name);
    }
    return result;
  };
  using words = std::vector<std::string>;
  CHECK(names("sgd", 0).empty());
  CHECK(names("sgd", 0.9) == words{"momentum_buffer"});
  CHECK(names("adam", 0) == words{"exp_avg", "exp_avg_sq"});
  CHECK(names("adamw", 0) == words{"exp_avg", "exp_avg_sq"});
  CHECK(names("lamb", 0) == words{"exp_avg", "exp_avg_sq"});
  CHECK(names("adagrad", 0) == words{"sum"});
}

TEST_CASE("state of another optimiser is refused", "[optimizer]") {
  settings s;
  auto uut = make_optimizer(s, layout_of(config::scalar_type::float32));
  CHECK_THROWS_AS(uut->load({}, 1), run_error);
  CHECK_THROWS_AS(uut->load({{"exp_avg", at::zeros({count})}}, 1), run_error);
  auto line = error_line<run_error>([&] {
    uut->load({{"momentum_buffer", at::zeros({3})}}, 1);
  });
  CHECK(line ==
        "saved slot momentum_buffer is not slot momentum_buffer of sgd with "
        "1003 values");
  CHECK(uut->steps() == 0);
}

TEST_CASE("buffers that do not fit are refused", "[optimizer]") {
  auto uut = make_optimizer({}, layout_of(config::scalar_type::float32));
  auto weights = at::zeros({count});
  CHECK_THROWS_AS(step(*uut, weights, at::zeros({count - 1}), 0.1), run_error);
  CHECK_THROWS_AS(step(*uut, weights, at::zeros({count}, at::kDouble), 0.1),
                  run_error);
  CHECK(uut->steps() == 0);
}

TEST_CASE("wrong optimiser settings are the user's error", "[optimizer]") {
  auto layout = layout_of(config::scalar_type::float32);
  settings s;
  s.optimizer = "sdg";
  CHECK(error_line<usage_error>([&] { make_optimizer(s, layout); }) ==
        "unknown optimizer 'sdg'; there are: sgd, adam, adamw, lamb, adagrad");
  s.optimizer = "sgd";
  s.momentum = 0;
  s.nesterov = true;
  CHECK_THROWS_AS(make_optimizer(s, layout), usage_error);
}
