// A small network that Troupe does not know.

#include <models/networks/registration.hpp>
#include <torch/nn/modules/linear.h>

#include <memory>

namespace {

class two_layers final : public troupe::models::network {
public:
  explicit two_layers(int64_t classes) : first_(784, 64), last_(64, classes) {
    module_.register_module("first", first_);
    module_.register_module("last", last_);
  }

  torch::nn::Module& module() override { return module_; }

  at::Tensor
  forward(const at::Tensor& images, const troupe::models::gradient_places&,
          const std::optional<troupe::models::dropout_key>&) override {
    return last_(torch::relu(first_(images.flatten(1))));
  }

private:
  torch::nn::Module module_{"two_layers"};
  torch::nn::Linear first_, last_;
};

const troupe::models::register_network mine{
  {"two_layers", {1, 28, 28}, 10, 0, [](int64_t classes) {
     return std::make_shared<two_layers>(classes);
   }}};

} // namespace
