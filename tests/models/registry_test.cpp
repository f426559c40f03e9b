#include "config/schema/known_names.hpp"
#include "config/schema/optimizers.hpp"
#include "config/text/failure.hpp"
#include "config/text/text.hpp"
#include "models/layout/flat_layout.hpp"
#include "models/networks/registry.hpp"
#include "models/optim/optimizer.hpp"
#include "tests/support/error_line.hpp"
#include "tests/support/optimizer_step.hpp"

#include <ATen/ATen.h>
#include <catch2/catch_test_macros.hpp>
#include <torch/nn/module.h>

#include <algorithm>
#include <cctype>
#include <cmath>

using namespace troupe;
using namespace troupe::models;
using namespace troupe::test;

namespace {

struct expected {
  const char* name;
  uint64_t parameters;
  uint64_t keys;
};

/// What torchvision has, and what the papers say.
constexpr expected sizes[] = {
  {"lenet", 431'080, 8},
  {"mnist_net", 1'199'882, 8},
  {"resnet18", 11'689'512, 122},
  {"resnet34", 21'797'672, 218},
  {"resnet50", 25'557'032, 320},
  {"resnet101", 44'549'160, 626},
  {"resnet152", 60'192'808, 932},
  {"vgg11", 132'863'336, 22},
  {"vgg13", 133'047'848, 26},
  {"vgg16", 138'357'544, 32},
  {"vgg19", 143'667'240, 38},
  {"vgg11_bn", 132'868'840, 62},
  {"vgg13_bn", 133'053'736, 76},
  {"vgg16_bn", 138'365'992, 97},
  {"vgg19_bn", 143'678'248, 118},
  {"resnet20", 269'722, 0},
  {"resnet32", 464'154, 0},
  {"resnet44", 658'586, 0},
  {"resnet56", 853'018, 0},
  {"resnet110", 1'727'962, 0},
  {"resnet18_cifar", 11'173'962, 122},
};

std::vector<std::string> keys_of(const std::string& name) {
  auto net = make_network(name, 10, float32);
  std::vector<std::string> out;
  auto layout = flat_layout::from(net->module());
  for (const auto& x : layout.state_dict()) {
    out.push_back(x.name);
  }
  return out;
}

std::vector<std::string> first(std::vector<std::string> all, size_t n) {
  all.resize(n);
  return all;
}

/// Deviation of a tensor's numbers, whose mean must be near zero.
double deviation(const at::Tensor& x) {
  auto result = x.std().item<double>();
  CHECK(std::abs(x.mean().item<double>()) < 0.1 * result);
  return result;
}

bool is_near(double value, double wanted) {
  return std::abs(value - wanted) < 0.03 * wanted;
}

std::string complaint(const std::string& network,
                      const std::vector<int64_t>& shape) {
  return error_line<usage_error>(
    [&] { require_suitable(network, "these", shape); });
}

} // namespace

TEST_CASE("networks have torchvision's numbers of parameters and keys",
          "[registry]") {
  for (const auto& wanted : sizes) {
    INFO(wanted.name);
    auto found = size_of(network_named(wanted.name));
    CHECK(found.parameters == wanted.parameters);
    if (wanted.keys != 0) {
      CHECK(found.keys == wanted.keys);
    }
  }
}

TEST_CASE("the settings know the registry's names", "[registry]") {
  CHECK(std::ranges::equal(config::known_networks(), network_names()));
  CHECK(std::ranges::equal(config::known_optimizers(), optimizer_names()));
}

TEST_CASE("no two networks have names that could be mixed up", "[registry]") {
  for (const auto& name : config::known_networks()) {
    std::string capitals;
    for (char c : name)
      capitals += static_cast<char>(std::toupper(c));
    INFO(name);
    CHECK(config::spelt(capitals, config::known_networks()) == name);
  }
}

TEST_CASE("keys come in the order of torchvision's state dict", "[registry]") {
  std::vector<std::string> wanted{
    "conv1.weight",          "bn1.weight",         "bn1.bias",
    "bn1.running_mean",      "bn1.running_var",    "bn1.num_batches_tracked",
    "layer1.0.conv1.weight", "layer1.0.bn1.weight"};
  CHECK(first(keys_of("resnet18"), wanted.size()) == wanted);
  auto keys = keys_of("resnet50");
  auto at = std::ranges::find(keys, "layer1.0.bn3.num_batches_tracked");
  REQUIRE(at != keys.end());
  CHECK(at[1] == "layer1.0.downsample.0.weight");
  CHECK(at[2] == "layer1.0.downsample.1.weight");
  CHECK(keys.back() == "fc.bias");
  wanted = {"features.0.weight", "features.0.bias", "features.1.weight"};
  CHECK(first(keys_of("vgg11_bn"), 3) == wanted);
  keys = keys_of("vgg16");
  CHECK(keys[keys.size() - 3] == "classifier.3.bias");
  CHECK(keys.back() == "classifier.6.bias");
  CHECK(std::ranges::count(keys_of("vgg11_cifar"), "classifier.1.weight") == 1);
}

TEST_CASE("parameters lie before statistics, counters in no flat buffer",
          "[registry]") {
  auto net = make_network("resnet20", 10, config::scalar_type::float64);
  auto layout = flat_layout::from(net->module());
  CHECK(layout.parameter_count() == 269'722);
  CHECK(layout.statistics().size() == 2 * 19);
  CHECK(layout.statistics().front().offset == layout.parameter_count());
  const auto& last = layout.statistics().back();
  CHECK(last.offset + last.count == layout.count());
  CHECK(layout.state_dict().size() ==
        layout.slots().size() + layout.statistics().size() + 19);
  for (const auto& x : net->module().named_buffers()) {
    auto counts = x.key().ends_with("num_batches_tracked");
    CHECK(x.value().scalar_type() == (counts ? at::kLong : at::kDouble));
  }
}

TEST_CASE("residual networks begin with torchvision's distributions",
          "[registry]") {
  auto net = make_network("resnet18_cifar", 10, float32);
  initialise(*net, 1);
  auto p = net->module().named_parameters();
  auto fan_out = 512 * 3 * 3;
  CHECK(
    is_near(deviation(p["layer4.1.conv2.weight"]), std::sqrt(2.0 / fan_out)));
  CHECK(p["layer4.1.bn2.weight"].eq(1).all().item<bool>());
  CHECK(p["layer4.1.bn2.bias"].eq(0).all().item<bool>());
  auto bound = 1 / std::sqrt(512.0); // Uniform.
  CHECK(p["fc.weight"].abs().max().item<double>() <= bound);
  CHECK(is_near(deviation(p["fc.weight"]), bound / std::sqrt(3.0)));
  auto buffers = net->module().named_buffers();
  CHECK(buffers["bn1.running_mean"].eq(0).all().item<bool>());
  CHECK(buffers["bn1.running_var"].eq(1).all().item<bool>());
}

TEST_CASE("VGG begins with torchvision's distributions", "[registry]") {
  auto net = make_network("vgg11_cifar", 10, float32);
  initialise(*net, 1);
  auto p = net->module().named_parameters();
  CHECK(is_near(deviation(p["features.18.weight"]),
                std::sqrt(2.0 / (512 * 3 * 3))));
  CHECK(p["features.18.bias"].eq(0).all().item<bool>());
  CHECK(is_near(deviation(p["classifier.1.weight"]), 0.01));
  CHECK(p["classifier.1.bias"].eq(0).all().item<bool>());
}

TEST_CASE("all small networks take what they say they take", "[registry]") {
  for (auto name : {"mnist_net", "resnet20", "resnet18_cifar", "vgg11_cifar",
                    "vgg11_bn_cifar"}) {
    INFO(name);
    auto [channels, height, width] = network_named(name).input;
    auto net = make_network(name, 7, float32);
    initialise(*net, 1);
    auto scores = net->forward(at::rand({2, channels, height, width}));
    CHECK(scores.sizes() == at::IntArrayRef{2, 7});
    CHECK(scores.isfinite().all().item<bool>());
  }
}

TEST_CASE("unsuitable samples are the user's error", "[registry]") {
  CHECK(complaint("lenet", {3, 32, 32}) ==
        "--network lenet takes images of 1x28x28, those of these are 3x32x32; "
        "--list-networks shows what each takes");
  CHECK(complaint("resnet18", {3, 32, 32}) ==
        "--network resnet18 takes images of 3 channels and at least 64x64, "
        "those of these are 3x32x32; --list-networks shows what each takes");
  CHECK_NOTHROW(require_suitable("resnet18", "these", {3, 100, 70}));
  CHECK_NOTHROW(require_suitable("resnet18_cifar", "these", {3, 32, 32}));
  CHECK_THROWS_AS(require_suitable("vgg11_cifar", "these", {3, 64, 64}),
                  usage_error);
  CHECK_THROWS_AS(require_suitable("resnet19", "these", {3, 64, 64}),
                  usage_error);
}

TEST_CASE("the parts of a network have all of its parameters, in their order",
          "[registry]") {
  for (const auto& entry : network_registry()) {
    INFO(entry.name);
    auto net = entry.make(10);
    std::vector<std::string> of_parts, of_layout;
    auto modules = net->module().named_modules("", /*include_self=*/false);
    for (const auto& part : net->parts())
      for (const auto& name : part.modules)
        for (const auto& item : modules[name]->named_parameters())
          of_parts.push_back(name + "." + item.key());
    auto layout = flat_layout::from(net->module());
    for (const auto& slot : layout.slots())
      of_layout.push_back(slot.name);
    CHECK(of_parts == of_layout);
  }
}
