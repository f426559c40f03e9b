#include "config/text/failure.hpp"
#include "models/layout/assign_groups.hpp"
#include "models/network.hpp"
#include "models/optim/clipping.hpp"
#include "models/optim/groups.hpp"
#include "models/optim/optimizer.hpp"
#include "tests/support/decay.hpp"
#include "tests/support/error_line.hpp"
#include "tests/support/optimizer_step.hpp"

#include <catch2/catch_approx.hpp>
#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <torch/torch.h>

#include <functional>
#include <map>
#include <string>

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

TEST_CASE("parameters are excluded by what they are", "[groups]") {
  CHECK(without_decay(small, decay_exclusion::none).empty());
  // In brackets: LibTorch's headers break the printing of vectors.
  CHECK((without_decay(small, decay_exclusion::bias) ==
         ranges{{36, 4}, {44, 4}, {56, 2}}));
  CHECK((without_decay(small, decay_exclusion::norm) == ranges{{40, 8}}));
  CHECK((without_decay(small, decay_exclusion::bias_and_norm) ==
         ranges{{36, 12}, {56, 2}}));
}

TEST_CASE("resnet18 has twenty normalising layers and one other bias",
          "[groups]") {
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
          "[groups]") {
  mixed_net net;
  constexpr uint64_t whole = 8 * 12 * 12;
  // The slopes of PReLU decay, though they have one dimension. Of a class that
  // nobody knows, parameters of one dimension do not.
  CHECK((without_decay(flat_layout::from(net), decay_exclusion::norm) ==
         ranges{{0, 2 * whole}, {2 * whole + 5, 7}}));
}

namespace {

config::training_settings grouped(const std::string& rules) {
  config::training_settings out;
  out.lr = 0.1;
  out.weight_decay = 0.05;
  out.param_groups = rules;
  return out;
}

flat_layout with_groups(
  const config::training_settings& settings,
  const std::map<std::string, config::group_numbers>& described = {}) {
  auto out = small;
  assign_groups(out, described, settings);
  return out;
}

/// The terms of each parameter of `small`.
std::vector<group_terms> terms_of(const parameter_groups& groups) {
  std::vector<group_terms> out;
  for (const auto& part : groups.parts)
    out.push_back(groups.terms.at(part.group));
  return out;
}

} // namespace

TEST_CASE("the first rule that matches a parameter says what it has of its own",
          "[groups]") {
  auto settings = grouped("fc.bias=lr=0.4,fc.*=lr=0.2 weight-decay=0,"
                          "norm.weight norm.bias=momentum=0.5");
  settings.weight_decay_exclude = config::decay_exclusion::bias_and_norm;
  auto layout = with_groups(settings);
  CHECK((terms_of(groups_of(layout, settings)) ==
         std::vector<group_terms>{{1, 0.05, 0.9},
                                  {1, 0, 0.9},
                                  {1, 0, 0.5},
                                  {1, 0, 0.5},
                                  {2, 0, 0.9},
                                  {4, 0, 0.9}}));
  // A decay of its own is more than an exclusion.
  settings = grouped("*.bias=weight-decay=0.01");
  settings.weight_decay_exclude = config::decay_exclusion::bias;
  CHECK(terms_of(groups_of(with_groups(settings), settings))[1].weight_decay ==
        0.01);
}

TEST_CASE("what a network says of its parameters is for what no rule says",
          "[groups]") {
  auto settings = grouped("fc.*=lr=0.2");
  auto layout = with_groups(
    settings, {{"fc.weight", {0.3, 0.02, {}}}, {"conv1.bias", {{}, {}, 0.0}}});
  auto terms = terms_of(groups_of(layout, settings));
  CHECK((terms[4] == group_terms{2, 0.02, 0.9}));
  CHECK((terms[1] == group_terms{1, 0.05, 0}));
  CHECK((terms[5] == group_terms{2, 0.05, 0.9}));
}

TEST_CASE("a rule that matches nothing that is trained is refused",
          "[groups]") {
  CHECK(error_line<usage_error>([] { with_groups(grouped("fc3.*=lr=1")); }) ==
        "[param-groups]: 'fc3.*' matches no parameter that is trained");
  auto settings = grouped("");
  settings.optimizer = "adamw";
  CHECK(error_line<usage_error>([&] {
          with_groups(settings, {{"fc.bias", {{}, {}, 0.5}}});
        }) == "parameter fc.bias has a momentum, which adamw does not know");
  settings.optimizer = "sgd";
  settings.momentum = 0;
  CHECK_THROWS_AS(with_groups(settings, {{"fc.bias", {{}, {}, 0.5}}}),
                  usage_error);
}

TEST_CASE("a shard gets the groups that lie in its part", "[groups]") {
  auto settings = grouped("norm.*=lr=0.3");
  auto all = groups_of(with_groups(settings), settings);
  CHECK((within(all, {0, 58}) == all));
  auto part = within(all, {38, 7});
  CHECK(
    (part.parts == std::vector<group_part>{{2, 1, 0}, {6, 2, 1}, {7, 3, 1}}));
  CHECK((part.terms == all.terms));
  CHECK(part.fit(7));
  CHECK_FALSE(part.fit(8));
  part.parts[1].group = 2;
  CHECK_FALSE(part.fit(7));
  part.parts[1] = {2, 2, 1};
  CHECK_FALSE(part.fit(7));
}

TEST_CASE("excluded elements step like a group of PyTorch without decay",
          "[groups]") {
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
  parameter_groups groups{{{1, s.weight_decay, s.momentum}, {1, 0, s.momentum}},
                          {}};
  uint64_t end = 0;
  for (const auto& x : plain) {
    if (x.first > end)
      groups.parts.push_back({x.first, 0, 0});
    groups.parts.push_back({end = x.end(), 0, 1});
  }
  auto uut = make_optimizer(s, layout, groups);
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

namespace {

/// Steps of an optimiser of torch's with a group for each of two parts, whose
/// learning rates are scaled alike on the way, beside those of ours.
template <class Optimizer, class Options>
void check_groups(const config::training_settings& s, const Options& of_first,
                  const Options& of_second) {
  auto layout = flat_layout::from({{"first", {400}}, {"second", {600}}},
                                  config::scalar_type::float64);
  assign_groups(layout, {}, s);
  auto uut = make_optimizer(s, layout);
  at::manual_seed(6);
  auto weights = at::randn({1000}, at::kDouble);
  auto first = weights.narrow(0, 0, 400).clone().requires_grad_();
  auto second = weights.narrow(0, 400, 600).clone().requires_grad_();
  std::vector<torch::optim::OptimizerParamGroup> groups;
  groups.emplace_back(std::vector{first}, std::make_unique<Options>(of_first));
  groups.emplace_back(std::vector{second},
                      std::make_unique<Options>(of_second));
  Optimizer reference{groups, of_first};
  for (int i = 0; i < 20; ++i) {
    auto share = i < 10 ? 1 : 0.5;
    auto gradient = at::randn({1000}, at::kDouble);
    first.mutable_grad() = gradient.narrow(0, 0, 400).clone();
    second.mutable_grad() = gradient.narrow(0, 400, 600).clone();
    auto& all = reference.param_groups();
    all[0].options().set_lr(of_first.lr() * share);
    all[1].options().set_lr(of_second.lr() * share);
    reference.step();
    step(*uut, weights, gradient, s.lr * share, 2);
  }
  auto expected = at::cat({first.detach(), second.detach()});
  CHECK(at::allclose(weights, expected, 1e-13, 1e-13));
}

} // namespace

TEST_CASE("groups of torch.optim.SGD are one pass here", "[groups]") {
  auto s = grouped("second=lr=0.02 weight-decay=0 momentum=0.5");
  s.nesterov = GENERATE(false, true);
  auto options =
    torch::optim::SGDOptions(0.1).momentum(0.9).weight_decay(0.05).nesterov(
      s.nesterov);
  auto own = options;
  own.lr(0.02).weight_decay(0).momentum(0.5);
  check_groups<torch::optim::SGD>(s, options, own);
  s.param_groups = "second=momentum=0";
  own = options;
  own.momentum(0).nesterov(false);
  if (!s.nesterov)
    check_groups<torch::optim::SGD>(s, options, own);
}

TEST_CASE("groups of torch.optim.AdamW and Adagrad are one pass here",
          "[groups]") {
  auto s = grouped("second=lr=0.02 weight-decay=0.01");
  s.optimizer = "adamw";
  auto options = torch::optim::AdamWOptions(0.1).weight_decay(0.05);
  auto own = options;
  own.lr(0.02).weight_decay(0.01);
  check_groups<torch::optim::AdamW>(s, options, own);
  s.optimizer = "adagrad";
  s.epsilon = 1e-10;
  auto all = torch::optim::AdagradOptions(0.1).weight_decay(0.05);
  auto others = all;
  others.lr(0.02).weight_decay(0.01);
  check_groups<torch::optim::Adagrad>(s, all, others);
}

TEST_CASE("a step's mean gradient is clipped as clip_grad_norm_ does",
          "[groups]") {
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
