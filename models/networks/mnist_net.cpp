#include "models/networks/mnist_net.hpp"

#include "models/networks/layers.hpp"
#include "models/networks/linear.hpp"

#include <torch/nn/module.h>
#include <torch/utils.h>

namespace troupe::models {

namespace {

namespace nn = torch::nn;

constexpr int64_t flattened = 64 * 12 * 12;

class mnist_net final : public network {
public:
  explicit mnist_net(int64_t classes)
    : conv1_(make_conv({.in = 1, .out = 32, .kernel = 3, .bias = true})),
      conv2_(make_conv({.in = 32, .out = 64, .kernel = 3, .bias = true})),
      fc1_(make_linear(flattened, 128)), fc2_(make_linear(128, classes)) {
    module_.register_module("conv1", conv1_);
    module_.register_module("conv2", conv2_);
    module_.register_module("fc1", fc1_);
    module_.register_module("fc2", fc2_);
  }

  nn::Module& module() override { return module_; }

  at::Tensor forward(const at::Tensor& inputs, const gradient_places& places,
                     const std::optional<dropout_key>& drop) override {
    auto x = at::relu(conv2_(at::relu(conv1_(inputs))));
    x = dropout(at::max_pool2d(x, 2), 0.25, 0, drop);
    x = at::relu(linear(x.reshape({-1, flattened}), fc1_, places));
    return linear(dropout(x, 0.5, 1, drop), fc2_, places);
  }

private:
  nn::Module module_{"mnist_net"};
  nn::Conv2d conv1_;
  nn::Conv2d conv2_;
  nn::Linear fc1_;
  nn::Linear fc2_;
};

} // namespace

std::shared_ptr<network> make_mnist_net(int64_t classes) {
  return std::make_shared<mnist_net>(classes);
}

} // namespace troupe::models
