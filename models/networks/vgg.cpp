#include "models/networks/vgg.hpp"

#include "models/networks/layers.hpp"
#include "models/networks/linear.hpp"

#include <torch/nn/modules/activation.h>
#include <torch/nn/modules/container/sequential.h>
#include <torch/nn/modules/pooling.h>
#include <torch/utils.h>

#include <array>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace troupe::models {

namespace {

namespace nn = torch::nn;

/// Convolutions between two pools, of which there are five.
std::array<int64_t, 5> groups_of(int64_t depth) {
  switch (depth) {
  case 11:
    return {1, 1, 2, 2, 2};
  case 13:
    return {2, 2, 2, 2, 2};
  case 16:
    return {2, 2, 3, 3, 3};
  case 19:
    return {2, 2, 4, 4, 4};
  default:
    throw std::logic_error("there is no vgg" + std::to_string(depth));
  }
}

constexpr std::array<int64_t, 5> widths{64, 128, 256, 512, 512};

nn::Sequential make_features(const vgg_plan& plan) {
  nn::Sequential out;
  auto groups = groups_of(plan.depth);
  int64_t in = 3;
  for (size_t i = 0; i < groups.size(); ++i) {
    for (int64_t k = 0; k < groups[i]; ++k) {
      out->push_back(make_conv({in, widths[i], 3, 1, 1, true}));
      if (plan.normalised) {
        out->push_back(make_batch_norm(widths[i]));
      }
      out->push_back(nn::ReLU(nn::ReLUOptions{true}));
      in = widths[i];
    }
    out->push_back(nn::MaxPool2d(nn::MaxPool2dOptions(2).stride(2)));
  }
  return out;
}

class vgg final : public network {
public:
  vgg(const vgg_plan& plan, int64_t classes)
    : small_(plan.small), features_(make_features(plan)) {
    module_.register_module("features", features_);
    module_.register_module("classifier", classifier_);
    auto hidden = small_ ? 512 : 4096;
    add_linear(small_ ? 512 : 512 * 7 * 7, hidden);
    add_linear(hidden, hidden);
    add_linear(hidden, classes);
  }

  nn::Module& module() override { return module_; }

  at::Tensor forward(const at::Tensor& inputs, const gradient_places& places,
                     const std::optional<dropout_key>& drop) override {
    auto x = features_->forward(inputs);
    if (!small_) {
      x = at::adaptive_avg_pool2d(x, {7, 7});
    }
    x = x.flatten(1);
    for (size_t i = 0; i < linears_.size(); ++i) {
      auto last = i + 1 == linears_.size();
      if (small_ && !last) {
        x = dropout(x, 0.5, static_cast<uint32_t>(i), drop);
      }
      x = linear(x, linears_[i], places);
      if (!last) {
        x = x.relu();
      }
      if (!small_ && !last) {
        x = dropout(x, 0.5, static_cast<uint32_t>(i), drop);
      }
    }
    return x;
  }

  weight_rule initial_weights() const override { return weight_rule::vgg; }

private:
  /// Its place among the layers without weights gives it its name.
  void add_linear(int64_t in, int64_t out) {
    static constexpr std::array large{"0", "3", "6"};
    static constexpr std::array small{"1", "4", "6"};
    auto name = (small_ ? small : large)[linears_.size()];
    linears_.push_back(
      classifier_->register_module(name, make_linear(in, out)));
  }

  nn::Module module_{"vgg"};
  bool small_;
  nn::Sequential features_;
  std::shared_ptr<nn::Module> classifier_ =
    std::make_shared<nn::Module>("classifier");
  std::vector<nn::Linear> linears_;
};

} // namespace

std::shared_ptr<network> make_vgg(const vgg_plan& plan, int64_t classes) {
  return std::make_shared<vgg>(plan, classes);
}

} // namespace troupe::models
