#include "models/networks/mnist_net.hpp"

#include "models/networks/chain.hpp"
#include "models/networks/layers.hpp"
#include "models/networks/linear.hpp"

#include <torch/nn/module.h>
#include <torch/utils.h>

namespace troupe::models {

namespace {

namespace nn = torch::nn;

constexpr int64_t flattened = 64 * 12 * 12;

class mnist_net final : public chain_network {
public:
  explicit mnist_net(int64_t classes) : chain_network("mnist_net") {
    auto conv1 = make_conv({.in = 1, .out = 32, .kernel = 3, .bias = true});
    auto conv2 = make_conv({.in = 32, .out = 64, .kernel = 3, .bias = true});
    auto fc1 = make_linear(flattened, 128);
    auto fc2 = make_linear(128, classes);
    module().register_module("conv1", conv1);
    module().register_module("conv2", conv2);
    module().register_module("fc1", fc1);
    module().register_module("fc2", fc2);
    add({"conv1"}, [conv1](const at::Tensor& x, const pass_context&) mutable {
      return at::relu(conv1(x));
    });
    add({"conv2"}, [conv2](const at::Tensor& x,
                           const pass_context& with) mutable {
      return dropout(at::max_pool2d(at::relu(conv2(x)), 2), 0.25, 0, with.drop);
    });
    add({"fc1"}, [fc1](const at::Tensor& x, const pass_context& with) mutable {
      auto y = at::relu(linear(x.reshape({-1, flattened}), fc1, with.places));
      return dropout(y, 0.5, 1, with.drop);
    });
    add({"fc2"}, [fc2](const at::Tensor& x, const pass_context& with) mutable {
      return linear(x, fc2, with.places);
    });
  }
};

} // namespace

std::shared_ptr<network> make_mnist_net(int64_t classes) {
  return std::make_shared<mnist_net>(classes);
}

} // namespace troupe::models
