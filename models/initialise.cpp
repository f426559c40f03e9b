#include "models/network.hpp"

#include <ATen/CPUGeneratorImpl.h>
#include <torch/nn/modules/conv.h>
#include <torch/nn/modules/linear.h>
#include <torch/utils.h>

#include <cmath>
#include <stdexcept>

namespace troupe::models {

namespace {

void draw(at::Tensor& parameter, double bound, at::Generator& generator) {
  if (parameter.defined()) {
    auto values = at::empty(parameter.sizes(), at::kFloat);
    parameter.copy_(values.uniform_(-bound, bound, generator));
  }
}

/// Both of PyTorch's defaults (Kaiming uniform with a = sqrt(5) for weights,
/// fan in for the bias) come to the same bound.
void draw_layer(at::Tensor& weight, at::Tensor& bias,
                at::Generator& generator) {
  auto fan_in = weight.numel() / weight.size(0);
  auto bound = 1 / std::sqrt(static_cast<double>(fan_in));
  draw(weight, bound, generator);
  draw(bias, bound, generator);
}

} // namespace

void initialise(network& net, uint64_t seed) {
  torch::NoGradGuard no_grad;
  auto generator = at::make_generator<at::CPUGeneratorImpl>(seed);
  for (auto& layer : net.module().modules(/*include_self=*/false)) {
    if (auto* conv = layer->as<torch::nn::Conv2dImpl>()) {
      draw_layer(conv->weight, conv->bias, generator);
    } else if (auto* linear = layer->as<torch::nn::LinearImpl>()) {
      draw_layer(linear->weight, linear->bias, generator);
    } else if (!layer->parameters(/*recurse=*/false).empty()) {
      throw std::logic_error(
        "no initial weights are known for a layer of type " + layer->name());
    }
  }
}

} // namespace troupe::models
