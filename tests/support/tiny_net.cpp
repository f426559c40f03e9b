#include "tests/support/tiny_net.hpp"

#include "models/network.hpp"
#include "models/networks/layers.hpp"
#include "models/networks/linear.hpp"
#include "models/networks/registration.hpp"

#include <torch/nn/module.h>

#include <memory>

namespace troupe::test {

namespace {

class tiny_net : public models::network, public torch::nn::Module {
public:
  explicit tiny_net(int64_t classes)
    : layer_(register_module("layer", models::make_linear(20, classes))) {
    // nop
  }

  torch::nn::Module& module() override { return *this; }

  at::Tensor forward(const at::Tensor& inputs,
                     const models::gradient_places& places,
                     const std::optional<models::dropout_key>&) override {
    return models::linear(inputs, layer_, places);
  }

private:
  torch::nn::Linear layer_;
};

const models::register_network tiny{
  {"tiny", {1, 4, 5}, 10, 0, [](int64_t classes) {
     return std::make_shared<tiny_net>(classes);
   }}};

} // namespace

} // namespace troupe::test
