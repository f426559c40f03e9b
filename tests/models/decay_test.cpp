#include "models/network.hpp"
#include "models/optim/clipping.hpp"
#include "models/optim/decay.hpp"
#include "models/optim/optimizer.hpp"
#include "tests/support/optimizer_step.hpp"

#include <catch2/catch_approx.hpp>
#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <torch/torch.h>

#include <functional>

using namespace troupe;
using namespace troupe::models;
using namespace troupe::test;

using config::decay_exclusion;

namespace {

using ranges = std::vector<element_range>;

const flat_layout small = flat_layout::from({{"conv1.weight", {4, 1, 3, 3}},
                                             {"conv1.bias", {4}},
                                             {"norm.weight", {4}},
                                             {"norm.bias", {4}},
                                             {"fc.weight", {2, 4}},
                                             {"fc.bias", {2}}},
                                            config::scalar_type::float32);

} // namespace

TEST_CASE("parameters are excluded by what they are", "[decay]") {
  CHECK(without_decay(small, decay_exclusion::none).empty());
  // In brackets: LibTorch's headers break the printing of vectors.
  CHECK((without_decay(small, decay_exclusion::bias) ==
         ranges{{36, 4}, {44, 4}, {56, 2}}));
  CHECK((without_decay(small, decay_exclusion::norm) == ranges{{40, 8}}));
  CHECK((without_decay(small, decay_exclusion::bias_and_norm) ==
         ranges{{36, 12}, {56, 2}}));
}

TEST_CASE("resnet18 has twenty normalising layers and one other bias",
          "[decay]") {
  auto net = make_network("resnet18_cifar", 10, config::scalar_type::float32);
  auto layout = flat_layout::from(net->module());
  uint64_t elements = 0;
  for (const auto& x : without_decay(layout, decay_exclusion::bias_and_norm))
    elements += x.count;
  CHECK(elements == 2 * 4800 + 10);
}

namespace {

/// A layer of somebody's own.
struct scale : torch::nn::Module {
  explicit scale(std::vector<int64_t> shape) {
    register_parameter("weight", torch::ones(shape));
  }
};

struct mixed_net : torch::nn::Module {
  mixed_net() {
    register_module(
      "whole", torch::nn::LayerNorm(torch::nn::LayerNormOptions({8, 12, 12})));
    register_module(
      "slope", torch::nn::PReLU(torch::nn::PReLUOptions().num_parameters(5)));
    register_module("line", std::make_shared<scale>(std::vector<int64_t>{7}));
    register_module("plane",
                    std::make_shared<scale>(std::vector<int64_t>{2, 3}));
  }
};

} // namespace

TEST_CASE("a normalising layer is known by its class, whatever its shape",
          "[decay]") {
  mixed_net net;
  constexpr uint64_t whole = 8 * 12 * 12;
  // Not the slopes of PReLU, though they have one dimension; of a class that
  // nobody knows, what has one.
  CHECK((without_decay(flat_layout::from(net), decay_exclusion::norm) ==
         ranges{{0, 2 * whole}, {2 * whole + 5, 7}}));
}

TEST_CASE("a shard gets what lies in its part", "[decay]") {
  ranges all{{36, 12}, {56, 2}};
  CHECK((within(all, {0, 58}) == all));
  CHECK((within(all, {40, 10}) == ranges{{0, 8}}));
  CHECK(within(all, {48, 8}).empty());
  CHECK((within(all, {30, 27}) == ranges{{6, 12}, {26, 1}}));
}

TEST_CASE("excluded elements step like a group of PyTorch without decay",
          "[decay]") {
  // Over several blocks, with cuts inside of them, at their ends and across.
  constexpr int64_t count = 20'001;
  ranges plain{{0, 5}, {100, 1000}, {2048, 2048}, {6000, 9000}, {20'000, 1}};
  config::training_settings s;
  s.optimizer = GENERATE("sgd", "adam", "adamw", "adagrad");
  s.lr = 0.05;
  s.nesterov = s.optimizer == "sgd" && GENERATE(false, true);
  s.weight_decay = 0.1;
  INFO(s.optimizer);
  auto layout =
    flat_layout::from({{"x", {count}}}, config::scalar_type::float32);
  auto uut = make_optimizer(s, layout, plain);
  auto all = make_optimizer(s, layout);
  auto none_settings = s;
  none_settings.weight_decay = 0;
  auto none = make_optimizer(none_settings, layout);

  at::manual_seed(5);
  auto excluded = at::zeros({count}, at::kBool);
  for (const auto& x : plain)
    excluded
      .narrow(0, static_cast<int64_t>(x.first), static_cast<int64_t>(x.count))
      .fill_(true);
  auto weights = at::randn({count});
  auto decayed = weights.clone();
  auto undecayed = weights.clone();
  for (int i = 0; i < 5; ++i) {
    auto gradient = at::randn({count});
    step(*uut, weights, gradient, s.lr);
    step(*all, decayed, gradient, s.lr);
    step(*none, undecayed, gradient, s.lr);
  }
  // Each of the two is compared with torch.optim elsewhere.
  CHECK(at::equal(weights, at::where(excluded, undecayed, decayed)));
}

TEST_CASE("two groups of torch.optim.SGD are one pass here", "[decay]") {
  config::training_settings s;
  s.lr = 0.1;
  s.weight_decay = 5e-2;
  s.nesterov = true;
  at::manual_seed(6);
  auto weights = at::randn({1000});
  auto first = weights.narrow(0, 0, 400).clone().requires_grad_();
  auto second = weights.narrow(0, 400, 600).clone().requires_grad_();
  auto options = torch::optim::SGDOptions(s.lr).momentum(0.9).nesterov(true);
  auto decaying = options;
  decaying.weight_decay(s.weight_decay);
  std::vector<torch::optim::OptimizerParamGroup> groups;
  groups.emplace_back(std::vector{first},
                      std::make_unique<torch::optim::SGDOptions>(decaying));
  groups.emplace_back(std::vector{second},
                      std::make_unique<torch::optim::SGDOptions>(options));
  torch::optim::SGD reference{groups, options};
  auto uut = make_optimizer(
    s, flat_layout::from({{"x", {1000}}}, config::scalar_type::float32),
    {{400, 600}});
  for (int i = 0; i < 20; ++i) {
    auto gradient = at::randn({1000});
    first.mutable_grad() = gradient.narrow(0, 0, 400).clone();
    second.mutable_grad() = gradient.narrow(0, 400, 600).clone();
    reference.step();
    step(*uut, weights, gradient, s.lr);
  }
  auto expected = at::cat({first.detach(), second.detach()});
  CHECK(at::allclose(weights, expected, 1e-6, 1e-6));
}

TEST_CASE("a step's mean gradient is clipped as clip_grad_norm_ does",
          "[decay]") {
  constexpr int64_t count = 10'003;
  auto dtype =
    GENERATE(config::scalar_type::float32, config::scalar_type::float64);
  auto parts = GENERATE(size_t{1}, size_t{3});
  auto limit = GENERATE(0.5, 1e6);
  config::training_settings s;
  s.momentum = 0;
  s.lr = 1;
  auto uut = make_optimizer(s, flat_layout::from({{"x", {count}}}, dtype));
  at::manual_seed(7);
  std::vector<at::Tensor> gradients;
  std::vector<double> shares;
  auto mean = at::zeros({count}, to_aten(dtype));
  for (size_t i = 0; i < parts; ++i) {
    gradients.push_back(at::randn({count}, to_aten(dtype)));
    shares.push_back(8);
    mean += gradients.back() / static_cast<double>(parts);
  }
  auto parameter = at::zeros({count}, to_aten(dtype)).requires_grad_();
  parameter.mutable_grad() = mean;
  torch::nn::utils::clip_grad_norm_(std::vector{parameter}, limit);
  auto kept = gradients.front().clone();
  auto weights = at::zeros({count}, to_aten(dtype));
  auto scale = clip_scale(limit, squares_of_mean(gradients, shares).value());
  CHECK((scale == 1) == (limit > 1e3));
  uut->step(weights, weights, gradients, shares, 1, scale);
  CHECK(at::allclose(weights, -parameter.grad(), 1e-5, 1e-7));
  CHECK(at::equal(gradients.front(), kept));
  if (limit > 1)
    return;
  CHECK(weights.norm().item<double>() == Catch::Approx(limit).epsilon(1e-4));
}
