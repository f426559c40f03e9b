#include "config/text/failure.hpp"
#include "models/layout/flat_layout.hpp"
#include "models/network.hpp"
#include "models/networks/registry.hpp"
#include "tests/support/error_line.hpp"
#include "tests/support/optimizer_step.hpp"

#include <catch2/catch_test_macros.hpp>
#include <torch/torch.h>

using namespace troupe;
using namespace troupe::models;
using namespace troupe::test;

namespace {

using shapes = std::vector<std::pair<std::string, std::vector<int64_t>>>;

shapes parameters_of(network& net) {
  shapes result;
  for (const auto& item : net.module().named_parameters()) {
    result.emplace_back(item.key(), item.value().sizes().vec());
  }
  return result;
}

at::Tensor weights_of(network& net) {
  return gather(net.module(), flat_layout::from(net.module()));
}

/// ps_pytorch's LeNet, written with functions only.
at::Tensor reference_forward(torch::nn::Module& m, const at::Tensor& inputs) {
  auto p = m.named_parameters();
  auto block = [&](const at::Tensor& x, const std::string& name) {
    auto y = at::conv2d(x, p[name + ".weight"], p[name + ".bias"]);
    return at::relu(at::max_pool2d(y, 2, 2));
  };
  auto x = block(block(inputs, "conv1"), "conv2").reshape({-1, 800});
  x = at::linear(x, p["fc1.weight"], p["fc1.bias"]);
  return at::linear(x, p["fc2.weight"], p["fc2.bias"]);
}

/// A fully connected layer with the weight of another.
class tied_linear : public torch::nn::LinearImpl {
public:
  explicit tied_linear(const torch::nn::Linear& other)
    : LinearImpl(other->options) {
    weight = parameters_["weight"] = other->weight;
  }
};

class network_of_tied_layers final : public network {
public:
  network_of_tied_layers() {
    module_.register_module("first", first_);
    module_.register_module("second", second_);
    module_.register_module("again", first_);
  }

  torch::nn::Module& module() override { return module_; }

  at::Tensor forward(const at::Tensor& inputs, const gradient_places&,
                     const std::optional<dropout_key>&) override {
    return second_->forward(first_(inputs));
  }

private:
  torch::nn::Linear first_{6, 6};
  std::shared_ptr<tied_linear> second_ = std::make_shared<tied_linear>(first_);
  torch::nn::Module module_;
};

} // namespace

TEST_CASE("LeNet has the parameters of ps_pytorch's", "[network]") {
  auto net = make_network("lenet", 10, float32);
  shapes expected{{"conv1.weight", {20, 1, 5, 5}},  {"conv1.bias", {20}},
                  {"conv2.weight", {50, 20, 5, 5}}, {"conv2.bias", {50}},
                  {"fc1.weight", {500, 800}},       {"fc1.bias", {500}},
                  {"fc2.weight", {10, 500}},        {"fc2.bias", {10}}};
  CHECK((parameters_of(*net) == expected));
  CHECK(flat_layout::from(net->module()).count() == 431'080);
}

TEST_CASE("LeNet computes what ps_pytorch's computes", "[network]") {
  auto net = make_network("lenet", 10, float64);
  initialise(*net, 1);
  auto inputs = at::randn({3, 1, 28, 28}, at::kDouble);
  CHECK(at::allclose(net->forward(inputs),
                     reference_forward(net->module(), inputs)));
}

TEST_CASE("networks are made in the wanted dtype", "[network]") {
  for (auto dtype : {float32, float64}) {
    auto net = make_network("lenet", 4, dtype);
    for (const auto& x : net->module().parameters()) {
      CHECK(x.scalar_type() == to_aten(dtype));
    }
    CHECK(net->forward(at::zeros({2, 1, 28, 28}, to_aten(dtype))).sizes() ==
          at::IntArrayRef{2, 4});
  }
}

TEST_CASE("an unknown network is the user's error", "[network]") {
  auto line =
    error_line<usage_error>([] { make_network("lent", 10, float32); });
  CHECK(line == "unknown network 'lent'; --list-networks shows all");
}

TEST_CASE("initial weights depend on the seed alone", "[network]") {
  auto first = make_network("lenet", 10, float32);
  auto second = make_network("lenet", 10, float32);
  initialise(*first, 7);
  torch::manual_seed(99);
  at::rand({13});
  initialise(*second, 7);
  CHECK(at::equal(weights_of(*first), weights_of(*second)));
  initialise(*second, 8);
  CHECK_FALSE(at::equal(weights_of(*first), weights_of(*second)));
}

TEST_CASE("initialise leaves the global generator alone", "[network]") {
  auto net = make_network("lenet", 10, float32);
  torch::manual_seed(3);
  auto expected = at::rand({4});
  torch::manual_seed(3);
  initialise(*net, 7);
  CHECK(at::equal(at::rand({4}), expected));
}

TEST_CASE("initial weights are those of PyTorch's manual_seed", "[network]") {
  auto net = make_network("lenet", 10, float32);
  initialise(*net, 7);
  torch::manual_seed(7);
  auto reference = make_network("lenet", 10, float32);
  CHECK(at::equal(weights_of(*net), weights_of(*reference)));
}

TEST_CASE("float64 starts from the float32 weights", "[network]") {
  auto narrow = make_network("lenet", 10, float32);
  auto wide = make_network("lenet", 10, float64);
  initialise(*narrow, 7);
  initialise(*wide, 7);
  CHECK(at::equal(weights_of(*narrow).to(at::kDouble), weights_of(*wide)));
}

TEST_CASE("a weight of two layers is drawn as PyTorch leaves it", "[network]") {
  network_of_tied_layers net;
  initialise(net, 5);
  torch::manual_seed(5);
  torch::nn::Linear first{6, 6}, second{6, 6};
  auto found = net.module().named_parameters();
  CHECK(found["first.weight"].equal(first->weight));
  CHECK(found["second.weight"].equal(first->weight));
  CHECK(found["first.bias"].equal(first->bias));
  CHECK(found["second.bias"].equal(second->bias));
}
