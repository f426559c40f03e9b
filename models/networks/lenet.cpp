#include "models/networks/lenet.hpp"

#include "models/networks/chain.hpp"
#include "models/networks/linear.hpp"

#include <torch/nn/functional/activation.h>
#include <torch/nn/functional/pooling.h>
#include <torch/nn/modules/conv.h>
#include <torch/nn/modules/linear.h>

namespace troupe::models {

namespace {

namespace nn = torch::nn;

constexpr int64_t features = 50 * 4 * 4;

class lenet final : public chain_network {
public:
  explicit lenet(int64_t classes) : chain_network("lenet") {
    add_convolution("conv1", nn::Conv2d(nn::Conv2dOptions(1, 20, 5)));
    add_convolution("conv2", nn::Conv2d(nn::Conv2dOptions(20, 50, 5)));
    add_linear("fc1", nn::Linear(features, 500));
    add_linear("fc2", nn::Linear(500, classes));
  }

private:
  void add_convolution(const std::string& name, nn::Conv2d layer) {
    namespace F = nn::functional;
    module().register_module(name, layer);
    add({name}, [layer](const at::Tensor& x, const pass_context&) mutable {
      return torch::relu(F::max_pool2d(layer(x), F::MaxPool2dFuncOptions(2)));
    });
  }

  void add_linear(const std::string& name, nn::Linear layer) {
    module().register_module(name, layer);
    add({name}, [layer](const at::Tensor& x, const pass_context& with) mutable {
      return linear(x.flatten(1), layer, with.places);
    });
  }
};

} // namespace

std::shared_ptr<network> make_lenet(int64_t classes) {
  return std::make_shared<lenet>(classes);
}

} // namespace troupe::models
