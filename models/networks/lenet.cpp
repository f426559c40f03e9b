#include "models/networks/lenet.hpp"

#include "models/networks/linear.hpp"

#include <torch/nn/functional/activation.h>
#include <torch/nn/functional/pooling.h>
#include <torch/nn/modules/conv.h>
#include <torch/nn/modules/linear.h>

namespace troupe::models {

namespace {

namespace nn = torch::nn;

constexpr int64_t features = 50 * 4 * 4;

class lenet final : public network {
public:
  explicit lenet(int64_t classes)
    : conv1_(nn::Conv2dOptions(1, 20, 5)), conv2_(nn::Conv2dOptions(20, 50, 5)),
      fc1_(features, 500), fc2_(500, classes) {
    module_.register_module("conv1", conv1_);
    module_.register_module("conv2", conv2_);
    module_.register_module("fc1", fc1_);
    module_.register_module("fc2", fc2_);
  }

  nn::Module& module() override { return module_; }

  at::Tensor forward(const at::Tensor& inputs, const gradient_places& places,
                     const std::optional<dropout_key>&) override {
    namespace F = nn::functional;
    auto pool = F::MaxPool2dFuncOptions(2);
    auto x = torch::relu(F::max_pool2d(conv1_(inputs), pool));
    x = torch::relu(F::max_pool2d(conv2_(x), pool));
    x = linear(x.reshape({-1, features}), fc1_, places);
    return linear(x, fc2_, places);
  }

private:
  nn::Module module_{"lenet"};
  nn::Conv2d conv1_;
  nn::Conv2d conv2_;
  nn::Linear fc1_;
  nn::Linear fc2_;
};

} // namespace

std::shared_ptr<network> make_lenet(int64_t classes) {
  return std::make_shared<lenet>(classes);
}

} // namespace troupe::models
