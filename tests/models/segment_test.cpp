#include "config/text/failure.hpp"
#include "models/engine/batch_dropout.hpp"
#include "models/engine/compute.hpp"
#include "models/engine/loss.hpp"
#include "models/engine/segment.hpp"
#include "models/guarded.hpp"
#include "models/scalar.hpp"

#include <ATen/ATen.h>
#include <catch2/catch_approx.hpp>
#include <catch2/catch_test_macros.hpp>
#include <torch/csrc/autograd/autograd.h>
#include <torch/utils.h>

#include <atomic>
#include <memory>
#include <string>
#include <vector>

using namespace troupe;
using namespace troupe::models;

using Catch::Approx;

namespace {

constexpr int64_t samples = 12;
constexpr int64_t classes = 10;

config::training_settings training_of(const std::string& network) {
  config::training_settings out;
  out.network = network;
  return out;
}

/// A batch and weights for a network.
struct setting {
  explicit setting(const config::training_settings& s, int64_t channels,
                   int64_t side)
    : settings(s), whole(s, classes), weights(flat()),
      inputs(at::randn({samples, channels, side, side})),
      targets(at::randint(classes, {samples}, at::kLong)) {
    whole.initial_weights(weights, 7);
  }

  at::Tensor flat() const {
    return at::full({static_cast<int64_t>(whole.layout().count())},
                    std::numeric_limits<float>::quiet_NaN());
  }

  /// As the compute engine has it.
  std::pair<double, at::Tensor> unsplit(uint64_t micro_batch_size) {
    settings.micro_batch_size = micro_batch_size;
    compute_engine engine{settings, classes};
    auto gradient = flat();
    auto found = engine.run(weights, inputs, targets, gradient, {from});
    return {found.loss, gradient};
  }

  config::training_settings settings;
  compute_engine whole;
  at::Tensor weights;
  at::Tensor inputs;
  at::Tensor targets;
  lease from{lease_id{3}, 2, 24, samples};
};

/// A chain of segments that share the flat gradient of a network.
class chain {
public:
  chain(const setting& of, const std::vector<part_range>& cuts) : of_(of) {
    for (const auto& cut : cuts)
      stages_.push_back(
        std::make_unique<segment>(of.settings, classes, at::Tensor{}, cut));
  }

  /// All micro-batches forward, then all backward.
  std::pair<double, at::Tensor> run(int64_t micro_batch_size) {
    auto gradient = of_.flat();
    const auto& layout = of_.whole.layout();
    layout.statistics_of(gradient).copy_(layout.statistics_of(of_.weights));
    for (auto& stage : stages_)
      stage->begin({of_.weights, gradient, statistics_of(*stage, gradient)});
    std::vector<std::vector<segment_pass>> passes;
    double loss = 0;
    std::vector<at::Tensor> gradients;
    for (int64_t first = 0; first < samples; first += micro_batch_size) {
      auto& at = passes.emplace_back();
      auto x = of_.inputs.narrow(0, first, micro_batch_size);
      for (auto& stage : stages_) {
        at.push_back(stage->forward(
          x, dropout_of(of_.settings.seed, of_.from, first), first == 0));
        x = at.back().outputs.detach();
      }
      x.set_requires_grad(true);
      torch::AutoGradMode with_grad{true};
      auto share = training_loss{{}}.share(
        x, of_.targets.narrow(0, first, micro_batch_size), samples);
      gradients.push_back(torch::autograd::grad({share}, {x})[0]);
      loss += share.item<double>();
    }
    for (size_t m = 0; m < passes.size(); ++m) {
      auto x = gradients[m];
      for (auto s = stages_.size(); s-- > 0;)
        x = stages_[s]->backward(passes[m][s], passes[m][s].outputs, x,
                                 {m == 0, m + 1 == passes.size()});
    }
    for (auto& stage : stages_)
      stage->end();
    return {loss, gradient};
  }

  size_t parts() { return stages_.front()->net().parts().size(); }

private:
  static at::Tensor statistics_of(const segment& stage,
                                  const at::Tensor& gradient) {
    const auto& range = stage.statistics();
    return stage.layout().statistics_of(gradient).narrow(
      0, static_cast<int64_t>(range.first), static_cast<int64_t>(range.count));
  }

  const setting& of_;
  std::vector<std::unique_ptr<segment>> stages_;
};

void check_same(setting& of, const std::vector<part_range>& cuts,
                int64_t micro_batch_size) {
  auto [loss, gradient] = chain{of, cuts}.run(micro_batch_size);
  auto [wanted_loss, wanted] =
    of.unsplit(static_cast<uint64_t>(micro_batch_size));
  CHECK(loss == Approx(wanted_loss));
  CHECK(at::equal(gradient, wanted));
}

size_t parts_of(const std::string& network) {
  segment all{training_of(network), classes};
  return all.net().parts().size();
}

} // namespace

TEST_CASE("segments make the gradient of the unsplit network",
          "[models][segment]") {
  struct row {
    const char* network;
    int64_t channels, side;
  };
  for (const auto& [network, channels, side] :
       {row{"lenet", 1, 28}, row{"mnist_net", 1, 28}, row{"resnet20", 3, 32},
        row{"vgg11_cifar", 3, 32}}) {
    INFO(network);
    setting of{training_of(network), channels, side};
    auto parts = parts_of(network);
    REQUIRE(parts > 2);
    for (auto micro_batch_size : {samples, samples / 3}) {
      check_same(of, {{0, 1}, {1, parts}}, micro_batch_size);
      check_same(of, {{0, parts / 2}, {parts / 2, parts}}, micro_batch_size);
      std::vector<part_range> each;
      for (size_t i = 0; i < parts; ++i)
        each.push_back({i, i + 1});
      check_same(of, each, micro_batch_size);
    }
  }
}

TEST_CASE("a segment takes its owner's range alone", "[models][segment]") {
  setting of{training_of("lenet"), 1, 28};
  const auto& slots = of.whole.layout().slots();
  auto parts = parts_of("lenet");
  // The last layer, weight and bias.
  element_range range{slots[slots.size() - 2].offset, 0};
  range.count = of.whole.layout().count() - range.first;
  segment last{of.settings, classes, {}, {parts - 1, parts}, range};
  auto part = [&](const at::Tensor& flat) {
    return flat.narrow(0, static_cast<int64_t>(range.first),
                       static_cast<int64_t>(range.count));
  };
  segment body{of.settings, classes, {}, {0, parts - 1}};
  auto gradient = of.flat();
  body.begin({of.weights, gradient});
  last.begin({part(of.weights).clone(), part(gradient)});
  auto drop = dropout_of(of.settings.seed, of.from, 0);
  auto features = body.forward(of.inputs, drop, true);
  auto pass = last.forward(features.outputs, drop, true);
  torch::AutoGradMode with_grad{true};
  auto loss = training_loss{{}}.share(pass.outputs, of.targets, samples);
  auto back = last.backward(pass, loss, {}, {});
  CHECK_FALSE(body.backward(features, features.outputs, back, {}).defined());
  CHECK(at::equal(gradient, of.unsplit(samples).second));
}

TEST_CASE("a segment refuses buffers and ranges that do not fit",
          "[models][segment]") {
  setting of{training_of("lenet"), 1, 28};
  segment uut{of.settings, classes, {}, {0, 1}};
  CHECK_THROWS_AS(uut.begin({at::empty({3}), of.flat()}), run_error);
  CHECK_THROWS_AS(uut.begin({of.weights, at::empty({3})}), run_error);
  CHECK_THROWS_AS(
    segment(of.settings, classes, {}, {0, 1}, element_range{1, 9}), run_error);
}

TEST_CASE("a cancelled segment stops", "[models][segment]") {
  setting of{training_of("lenet"), 1, 28};
  segment uut{of.settings, classes, {}, {0, 2}};
  std::atomic<bool> cancel = false;
  segment_batch batch{of.weights, of.flat()};
  batch.cancel = &cancel;
  uut.begin(batch);
  auto pass = uut.forward(of.inputs, dropout_of(1, of.from, 0), true);
  cancel = true;
  CHECK_THROWS_AS(
    uut.backward(pass, pass.outputs, at::ones_like(pass.outputs), {}),
    cancelled);
  CHECK_THROWS_AS(uut.forward(of.inputs, dropout_of(1, of.from, 0), true),
                  cancelled);
}
