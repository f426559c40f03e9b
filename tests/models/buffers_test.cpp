// Running statistics and dropout: what forward needs besides weights.

#include "models/engine/compute.hpp"
#include "models/engine/statistics.hpp"
#include "models/network.hpp"
#include "models/optim/optimizer.hpp"
#include "tests/support/optimizer_step.hpp"

#include <ATen/Parallel.h>
#include <catch2/catch_test_macros.hpp>
#include <torch/torch.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

using namespace troupe;
using namespace troupe::models;
using namespace troupe::test;

namespace {

config::training_settings settings_of(const std::string& network) {
  at::set_num_threads(1);
  config::training_settings out;
  out.network = network;
  return out;
}

at::Tensor flat_of(const compute_engine& engine) {
  return at::zeros({static_cast<int64_t>(engine.layout().count())});
}

struct batch {
  at::Tensor inputs;
  at::Tensor targets;
};

batch draw(uint64_t seed, at::IntArrayRef shape) {
  torch::manual_seed(seed);
  auto inputs = at::randn(shape);
  return {inputs, at::randint(10, {shape[0]}, at::kLong)};
}

batch picture(uint64_t seed) {
  return draw(seed, {4, 3, 32, 32});
}

/// A network of LibTorch's own, with parameters and statistics in `flat`.
std::shared_ptr<network> plain_network(const std::string& name,
                                       const at::Tensor& flat) {
  auto net = make_network(name, 10, float32);
  auto layout = flat_layout::from(net->module());
  bind_parameters(net->module(), layout, flat);
  bind_statistics(net->module(), layout, flat);
  return net;
}

/// A step of a plain loop: forward changes the statistics in `flat`, then SGD
/// its parameters.
void plain_step(network& net, const flat_layout& layout, const batch& x,
                optimizer& with, const at::Tensor& flat) {
  auto parameters = net.module().parameters();
  auto scores =
    net.forward(x.inputs.contiguous(at::MemoryFormat::ChannelsLast));
  auto found = torch::autograd::grad(
    {at::cross_entropy_loss(scores, x.targets)}, parameters);
  auto gradient = at::zeros_like(flat);
  for (size_t i = 0; i < found.size(); ++i) {
    layout.view(gradient, layout.slots()[i]).copy_(found[i]);
  }
  double shares = 4;
  with.step(flat, flat, {&gradient, 1}, {&shares, 1}, 0.1);
}

flat_layout layout_with_statistics() {
  torch::nn::BatchNorm2d norm{2};
  return flat_layout::from(*norm);
}

} // namespace

// -- running statistics -------------------------------------------------------

TEST_CASE("statistics that are the same in all gradients stay as they are") {
  constexpr auto inf = std::numeric_limits<double>::infinity();
  constexpr auto nan = std::numeric_limits<double>::quiet_NaN();
  std::vector<double> shares{7, 10, 3};
  for (auto type : {at::kFloat, at::kDouble}) {
    auto constant = at::tensor({0.485, 1e-30, -0.0, -inf, nan}, type);
    std::vector<at::Tensor> parts(3, constant);
    for (auto& x : parts)
      x = at::cat({constant, at::randn({20000}, type)});
    auto next = at::empty_like(parts[0]);
    merge_statistics(config::buffers_rule::average, next, parts, shares);
    auto count = constant.nbytes();
    CHECK(std::memcmp(next.const_data_ptr(), constant.const_data_ptr(),
                      count) == 0);
    auto mean = at::zeros_like(next);
    for (size_t i = 0; i < parts.size(); ++i)
      mean += parts[i] * (shares[i] / 20);
    CHECK(at::allclose(next.narrow(0, 5, 20000), mean.narrow(0, 5, 20000)));
  }
}

TEST_CASE("of statistics that have seen nothing the others are the mean") {
  constexpr auto inf = std::numeric_limits<float>::infinity();
  std::vector<at::Tensor> parts{at::tensor({inf, inf, -inf}),
                                at::tensor({2.F, inf, inf}),
                                at::tensor({5.F, -inf, 1.F})};
  std::vector<double> shares{4, 1, 2};
  auto next = at::empty({3});
  merge_statistics(config::buffers_rule::average, next, parts, shares);
  CHECK(next.equal(at::tensor({4.F, inf, 1.F})));
}

TEST_CASE("only statistics that were infinite may be") {
  constexpr auto inf = std::numeric_limits<float>::infinity();
  auto before = at::tensor({1.F, inf, -inf});
  CHECK(stays_finite(before, at::tensor({2.F, 3.F, 4.F})));
  CHECK(stays_finite(before, at::tensor({2.F, 3.F, -inf})));
  CHECK_FALSE(stays_finite(before, at::tensor({inf, 3.F, 4.F})));
  CHECK_FALSE(stays_finite(before, at::tensor({std::nanf(""), 3.F, 4.F})));
}

TEST_CASE("one worker makes the statistics of a plain loop, bit by bit",
          "[buffers]") {
  for (auto rule : {config::buffers_rule::average, config::buffers_rule::first,
                    config::buffers_rule::local}) {
    auto settings = settings_of("resnet20");
    compute_engine engine{settings, 10};
    const auto& layout = engine.layout();
    auto current = flat_of(engine);
    engine.initial_weights(current, 1);
    auto expected = current.clone();
    auto net = plain_network("resnet20", expected);
    auto ours = make_optimizer(settings, layout);
    auto theirs = make_optimizer(settings, layout);
    at::Tensor kept;
    for (uint64_t i = 0; i < 3; ++i) {
      auto x = picture(i);
      auto gradient = flat_of(engine);
      auto next = flat_of(engine);
      engine.run(current, x.inputs, x.targets, gradient, {{}, kept});
      if (rule == config::buffers_rule::local) {
        kept = layout.statistics_of(gradient).clone();
      }
      double shares = 4;
      ours->step(next, current, {&gradient, 1}, {&shares, 1}, 0.1);
      auto part = layout.statistics_of(gradient);
      merge_statistics(rule, layout.statistics_of(next), {&part, 1},
                       {&shares, 1});
      current = next;
      plain_step(*net, layout, x, *theirs, expected);
    }
    CHECK(at::equal(current, expected));
    CHECK_FALSE(layout.statistics_of(current).eq(0).any().item<bool>());
  }
}

TEST_CASE("a gradient leaves the statistics that it read as they were",
          "[buffers]") {
  compute_engine engine{settings_of("resnet20"), 10};
  auto weights = flat_of(engine);
  engine.initial_weights(weights, 1);
  auto before = weights.clone();
  auto own = at::full_like(engine.layout().statistics_of(weights), 2);
  auto x = picture(1);
  auto gradient = flat_of(engine);
  engine.run(weights, x.inputs, x.targets, gradient, {{}, own});
  CHECK(at::equal(weights, before));
  CHECK(own.eq(2).all().item<bool>());
  auto from_own = engine.layout().statistics_of(gradient).clone();
  engine.run(weights, x.inputs, x.targets, gradient);
  CHECK_FALSE(at::equal(engine.layout().statistics_of(gradient), from_own));
}

TEST_CASE("scores are those of the statistics in the weights", "[buffers]") {
  compute_engine engine{settings_of("resnet20"), 10};
  auto weights = flat_of(engine);
  engine.initial_weights(weights, 1);
  engine.layout().statistics_of(weights).uniform_(0.5, 1.5);
  auto before = weights.clone();
  auto x = picture(1);
  auto gradient = flat_of(engine);
  engine.run(weights, x.inputs, x.targets, gradient); // Now in training mode.
  auto given = false;
  auto found = engine.evaluate(weights, [&](auto& inputs, auto& targets) {
    inputs = x.inputs;
    targets = x.targets;
    return !std::exchange(given, true);
  });
  CHECK(at::equal(weights, before));
  auto net = plain_network("resnet20", weights);
  net->module().eval();
  torch::NoGradGuard no_grad;
  auto loss = at::cross_entropy_loss(
    net->forward(x.inputs.contiguous(at::MemoryFormat::ChannelsLast)),
    x.targets);
  CHECK(std::abs(found.loss - loss.item<double>()) < 1e-5);
}

TEST_CASE("statistics of a step are averaged by shares, or the first's",
          "[buffers]") {
  auto layout = layout_with_statistics();
  REQUIRE(layout.parameter_count() == 4);
  REQUIRE(layout.count() == 8);
  std::vector<at::Tensor> parts{at::full({4}, 1.0), at::full({4}, 4.0)};
  std::vector<double> shares{2, 1};
  auto after = [&](config::buffers_rule rule) {
    auto next = at::full({8}, 9.0);
    merge_statistics(rule, layout.statistics_of(next), parts, shares);
    CHECK(layout.parameters_of(next).eq(9).all().item<bool>());
    return layout.statistics_of(next);
  };
  CHECK(at::allclose(after(config::buffers_rule::average), at::full({4}, 2.0)));
  CHECK(at::allclose(after(config::buffers_rule::local), at::full({4}, 2.0)));
  CHECK(after(config::buffers_rule::first).eq(1).all().item<bool>());
}

TEST_CASE("an optimiser leaves statistics alone", "[buffers]") {
  auto layout = layout_with_statistics();
  auto with = make_optimizer({}, layout);
  CHECK(with->slots().at(0).flat.numel() == 4);
  auto current = at::ones({8});
  auto next = at::full({8}, 9.0);
  auto gradient = at::ones({8});
  double shares = 1;
  with->step(next, current, {&gradient, 1}, {&shares, 1}, 0.5);
  CHECK(layout.parameters_of(next).eq(0.5).all().item<bool>());
  CHECK(layout.statistics_of(next).eq(9).all().item<bool>());
}

TEST_CASE("the digest of weights is of the parameters alone", "[buffers]") {
  auto layout = layout_with_statistics();
  auto flat = at::ones({8});
  auto digest = weights_sha256({flat, {}}, layout);
  layout.statistics_of(flat).fill_(3);
  CHECK(weights_sha256({flat, {}}, layout) == digest);
  layout.parameters_of(flat).fill_(3);
  CHECK(weights_sha256({flat, {}}, layout) != digest);
}

// -- dropout ------------------------------------------------------------------

TEST_CASE("a mask is a function of seed, place in the data and layer",
          "[dropout]") {
  auto x = at::ones({40, 25});
  auto masked = [&](const dropout_key& key, uint32_t layer) {
    return dropout(x, 0.5, layer, key);
  };
  auto base = masked({1, 2, 3}, 0);
  CHECK(at::equal(masked({1, 2, 3}, 0), base));
  CHECK_FALSE(at::equal(masked({2, 2, 3}, 0), base));
  CHECK_FALSE(at::equal(masked({1, 3, 3}, 0), base));
  CHECK_FALSE(at::equal(masked({1, 2, 4}, 0), base));
  CHECK_FALSE(at::equal(masked({1, 2, 3}, 1), base));
  CHECK(at::equal(dropout(x.to(at::kDouble), 0.5, 0, dropout_key{1, 2, 3}),
                  base.to(at::kDouble)));
  CHECK(dropout(x, 0.5, 0, {}).is_same(x));
}

TEST_CASE("dropout keeps its share and the mean", "[dropout]") {
  auto x = dropout(at::ones({100'000}), 0.25, 0, dropout_key{7, 0, 0});
  auto zeros = x.eq(0).to(at::kFloat).mean().item<double>();
  CHECK(std::abs(zeros - 0.25) < 0.006); // More than four deviations.
  auto scaled = x.eq(static_cast<float>(1 / 0.75)).to(at::kFloat).mean();
  CHECK(std::abs(scaled.item<double>() - 0.75) < 0.006);
}

TEST_CASE("the gradient of a lease does not depend on who computes it when",
          "[dropout]") {
  auto settings = settings_of("mnist_net");
  compute_engine one{settings, 10};
  compute_engine other{settings, 10};
  auto weights = flat_of(one);
  one.initial_weights(weights, 1);
  auto x = draw(3, {8, 1, 28, 28});
  auto gradient = [&](compute_engine& from, const lease& work) {
    auto out = flat_of(from);
    from.run(weights, x.inputs, x.targets, out, {work});
    return out;
  };
  lease first{lease_id{5}, 1, 64, 8};
  auto expected = gradient(one, first);
  gradient(other, {lease_id{1}, 0, 0, 8});
  torch::manual_seed(77);
  first.id = lease_id{9};
  CHECK(at::equal(gradient(other, first), expected));
  first.epoch = 2;
  CHECK_FALSE(at::equal(gradient(other, first), expected));
}
