// Segments of a network on devices: the gradient of the CPU, on the fake device
// bit for bit, with buffers and activations in the host's memory.

#include "models/engine/batch_dropout.hpp"
#include "models/engine/compute.hpp"
#include "models/engine/host_segment.hpp"
#include "models/engine/segment_plan.hpp"
#include "models/guarded.hpp"
#include "models/scalar.hpp"
#include "tests/device/engines.hpp"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/DeviceAccelerator.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/ones_like.h>
#include <ATen/ops/rand.h>
#include <catch2/catch_test_macros.hpp>

#include <limits>
#include <memory>
#include <string>

using namespace troupe;
using namespace troupe::models;
using testing::check_gradient;

namespace {

constexpr int64_t samples = 6;
constexpr int64_t digit_classes = 10;

/// Where the parts before a cut are computed, and those behind it.
struct two_places {
  std::string first = "cpu";
  std::string last = "cpu";
};

/// A network in two segments that share the owner's buffers.
class two_segments {
public:
  two_segments(const std::string& network, const two_places& places,
               size_t cut) {
    test::open_device();
    settings_.network = network;
    stages_.push_back(make(places.first, {0, cut}));
    stages_.push_back(make(places.last, {cut, SIZE_MAX}));
    auto draws = at::make_generator<at::CPUGeneratorImpl>(7);
    inputs_ = at::rand({samples, 3, 32, 32}, draws);
    weights_ = at::empty({static_cast<int64_t>(layout().count())});
    compute_engine{settings_, digit_classes}.initial_weights(weights_, 1);
  }

  const flat_layout& layout() const { return stages_.front()->layout(); }

  /// The gradient of the sum of all scores, in micro-batches of two samples.
  at::Tensor gradient() {
    auto out =
      at::empty_like(weights_).fill_(std::numeric_limits<double>::quiet_NaN());
    layout().statistics_of(out).copy_(layout().statistics_of(weights_));
    for (auto& stage : stages_)
      stage->begin({weights_, out, statistics_of(*stage, out)});
    for (int64_t first = 0; first < samples; first += 2) {
      auto key = dropout_of(1, {lease_id{3}, 2, 24, samples}, first);
      auto begin =
        stages_[0]->forward(inputs_.narrow(0, first, 2), key, first == 0);
      auto end = stages_[1]->forward(begin.outputs, key, first == 0);
      micro_batch_place at{first == 0, first + 2 == samples};
      auto between = stages_[1]->backward(end, at::ones_like(end.outputs), at);
      stages_[0]->backward(begin, between, at);
    }
    for (auto& stage : stages_)
      stage->end();
    return out;
  }

  host_segment& stage(size_t k) { return *stages_[k]; }

  const at::Tensor& weights() const { return weights_; }

  const at::Tensor& inputs() const { return inputs_; }

  at::Tensor statistics_of(const host_segment& stage,
                           const at::Tensor& gradient) const {
    const auto& range = stage.statistics();
    return layout().statistics_of(gradient).narrow(
      0, static_cast<int64_t>(range.first), static_cast<int64_t>(range.count));
  }

private:
  std::unique_ptr<host_segment> make(const std::string& device,
                                     const part_range& parts) {
    auto its = settings_;
    its.device = device;
    return std::make_unique<host_segment>(its, digit_classes, at::Tensor{},
                                          parts);
  }

  config::training_settings settings_;
  std::vector<std::unique_ptr<host_segment>> stages_;
  at::Tensor inputs_, weights_;
};

} // namespace

TEST_CASE("segments on devices make the gradient of the CPU") {
  for (const auto* network : {"resnet18", "vgg11"}) {
    two_segments on_cpu{network, {}, 4};
    auto wanted = on_cpu.gradient();
    auto last = test::last_device().str();
    for (const auto& places :
         {two_places{"cuda:0", last}, two_places{last, "cpu"},
          two_places{"cpu", "cuda:0"}}) {
      auto name = std::string{network} + "/" + places.first + "/" + places.last;
      INFO(name);
      two_segments there{network, places, 4};
      check_gradient(wanted, there.gradient(), name);
      check_gradient(wanted, there.gradient(), name); // The buffers again.
    }
  }
}

TEST_CASE("a device has the weights of its segment alone") {
  auto used = [] {
    auto [free, total] = at::accelerator::getMemoryInfo(0);
    return total - free;
  };
  two_segments all{"resnet18", {"cuda:0", "cpu"}, 4};
  auto before = used();
  auto gradient = at::empty_like(all.weights());
  all.stage(0).begin(
    {all.weights(), gradient, all.statistics_of(all.stage(0), gradient)});
  auto taken = used() - before;
  all.stage(0).end();
  CHECK(taken > 0);
  // The first four parts have a twentieth of the parameters.
  CHECK(taken < all.layout().bytes() / 4);
}

TEST_CASE("a device keeps channels last in memory") {
  for (const auto* device : {"cpu", "cuda:0"}) {
    two_segments all{"resnet18", {device, "cpu"}, 4};
    auto gradient = at::empty_like(all.weights());
    all.stage(0).begin(
      {all.weights(), gradient, all.statistics_of(all.stage(0), gradient)});
    auto pass = all.stage(0).forward(all.inputs(), {}, true);
    CHECK(pass.there.outputs.device().str() == device);
    CHECK(pass.there.outputs.is_contiguous(at::MemoryFormat::ChannelsLast));
    CHECK(pass.outputs.is_contiguous(at::MemoryFormat::ChannelsLast));
    all.stage(0).end();
  }
}

TEST_CASE("a segment on a device can be cancelled, and computes the next") {
  two_segments on_cpu{"resnet18", {}, 4};
  two_segments there{"resnet18", {"cuda:0", "cuda:0"}, 4};
  std::atomic<bool> cancel = true;
  auto gradient = at::empty_like(there.weights());
  there.stage(0).begin({there.weights(), gradient,
                        there.statistics_of(there.stage(0), gradient),
                        &cancel});
  CHECK_THROWS_AS(there.stage(0).forward(there.inputs(), {}, true), cancelled);
  there.stage(0).end();
  check_gradient(on_cpu.gradient(), there.gradient(), "after a cancel");
}

TEST_CASE("the parts of a network are measured on a device") {
  test::open_device();
  config::training_settings settings;
  settings.network = "lenet";
  settings.device = "cuda:0";
  auto costs = costs_of_parts(settings, digit_classes, {1, 28, 28}, 2);
  CHECK(costs.size() > 2);
  for (auto cost : costs)
    CHECK(cost > 0);
}
