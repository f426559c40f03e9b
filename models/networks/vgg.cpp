#include "models/networks/vgg.hpp"

#include "models/networks/chain.hpp"
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

class vgg final : public chain_network {
public:
  vgg(const vgg_plan& plan, int64_t classes)
    : chain_network("vgg"), small_(plan.small) {
    add_features(make_features(plan));
    module().register_module("classifier", classifier_);
    auto hidden = small_ ? 512 : 4096;
    add_linear(small_ ? 512 : 512 * 7 * 7, hidden);
    add_linear(hidden, hidden);
    add_linear(hidden, classes);
  }

  weight_rule initial_weights() const override { return weight_rule::vgg; }

private:
  /// A convolution begins a part.
  void add_features(nn::Sequential features) {
    module().register_module("features", features);
    auto begins = [&](size_t i) {
      return i == features->size() || features[i]->as<nn::Conv2d>();
    };
    for (size_t first = 0; first < features->size();) {
      auto end = first + 1;
      while (!begins(end))
        ++end;
      std::vector<std::string> names;
      std::vector<nn::AnyModule> layers;
      for (auto i = first; i < end; ++i) {
        layers.push_back(*(features->begin() + static_cast<int64_t>(i)));
        if (!features[i]->parameters().empty())
          names.push_back("features." + std::to_string(i));
      }
      add(names, [layers](at::Tensor x, const pass_context&) mutable {
        for (auto& layer : layers)
          x = layer.forward(x);
        return x;
      });
      first = end;
    }
  }

  /// Names the layer by its place in the classifier, where layers without
  /// weights count, too.
  void add_linear(int64_t in, int64_t out) {
    static constexpr std::array large{"0", "3", "6"};
    static constexpr std::array small{"1", "4", "6"};
    auto i = linears_++;
    auto name = (small_ ? small : large)[i];
    auto layer = make_linear(in, out);
    classifier_->register_module(name, layer);
    add({std::string{"classifier."} + name},
        [layer, i, small = small_](at::Tensor x,
                                   const pass_context& with) mutable {
          auto last = i + 1 == large.size();
          if (i == 0)
            x = (small ? x : at::adaptive_avg_pool2d(x, {7, 7})).flatten(1);
          if (small && !last)
            x = dropout(x, 0.5, i, with.drop);
          x = linear(x, layer, with.places);
          if (!last)
            x = x.relu();
          return small || last ? x : dropout(x, 0.5, i, with.drop);
        });
  }

  bool small_;
  std::shared_ptr<nn::Module> classifier_ =
    std::make_shared<nn::Module>("classifier");
  uint32_t linears_ = 0;
};

} // namespace

std::shared_ptr<network> make_vgg(const vgg_plan& plan, int64_t classes) {
  return std::make_shared<vgg>(plan, classes);
}

} // namespace troupe::models
