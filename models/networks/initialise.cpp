#include "models/network.hpp"

#include <ATen/CPUGeneratorImpl.h>
#include <torch/nn/modules/batchnorm.h>
#include <torch/nn/modules/conv.h>
#include <torch/nn/modules/linear.h>
#include <torch/utils.h>

#include <cmath>
#include <set>
#include <stdexcept>

namespace troupe::models {

namespace {

/// Draws the parameters of layers, one after the other.
class painter {
public:
  explicit painter(uint64_t seed)
    : generator_(at::make_generator<at::CPUGeneratorImpl>(seed)) {
    // nop
  }

  /// Both of PyTorch's defaults (Kaiming uniform with a = sqrt(5) for weights,
  /// fan in for the bias) come to the same bound.
  template <class Layer>
  void uniform(Layer& layer) {
    auto fan_in = layer.weight.numel() / layer.weight.size(0);
    auto bound = 1 / std::sqrt(static_cast<double>(fan_in));
    fill(layer.weight,
         [&](at::Tensor& x) { x.uniform_(-bound, bound, generator_); });
    fill(layer.bias,
         [&](at::Tensor& x) { x.uniform_(-bound, bound, generator_); });
  }

  template <class Layer>
  void normal(Layer& layer, double deviation) {
    fill(layer.weight,
         [&](at::Tensor& x) { x.normal_(0, deviation, generator_); });
    if (layer.bias.defined()) {
      layer.bias.zero_();
    }
  }

private:
  /// Values are drawn as float32, whatever the parameter is. A parameter of two
  /// layers keeps the first one's, but the second draws as well: in PyTorch,
  /// both are made before one gets the other's.
  template <class Draw>
  void fill(at::Tensor& parameter, Draw draw) {
    if (!parameter.defined()) {
      return;
    }
    auto values = at::empty(parameter.sizes(), at::kFloat);
    draw(values);
    if (filled_.insert(parameter.unsafeGetTensorImpl()).second) {
      parameter.copy_(values);
    }
  }

  at::Generator generator_;
  std::set<const at::TensorImpl*> filled_;
};

double deviation_by_fan_out(const at::Tensor& weight) {
  auto fan_out = weight.numel() / weight.size(1);
  return std::sqrt(2.0 / static_cast<double>(fan_out));
}

} // namespace

void initialise(network& net, uint64_t seed) {
  if (net.restore()) {
    return;
  }
  torch::NoGradGuard no_grad;
  painter with{seed};
  auto rule = net.initial_weights();
  std::set<const torch::nn::Module*> seen; // One may have several names.
  for (auto& layer : net.module().modules(/*include_self=*/false)) {
    if (!seen.insert(layer.get()).second) {
      continue;
    }
    if (auto* conv = layer->as<torch::nn::Conv2dImpl>()) {
      if (rule == weight_rule::uniform) {
        with.uniform(*conv);
      } else {
        with.normal(*conv, deviation_by_fan_out(conv->weight));
      }
    } else if (auto* linear = layer->as<torch::nn::LinearImpl>()) {
      if (rule == weight_rule::vgg) {
        with.normal(*linear, 0.01);
      } else {
        with.uniform(*linear);
      }
    } else if (auto* norm = layer->as<torch::nn::BatchNorm2dImpl>()) {
      norm->reset_parameters();
    } else if (!layer->parameters(/*recurse=*/false).empty()) {
      throw std::logic_error(
        "no initial weights are known for a layer of type " + layer->name());
    }
  }
}

} // namespace troupe::models
