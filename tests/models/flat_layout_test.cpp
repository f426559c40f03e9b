#include "config/text/failure.hpp"
#include "models/layout/flat_layout.hpp"
#include "models/network.hpp"
#include "tests/support/error_line.hpp"
#include "tests/support/optimizer_step.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>
#include <torch/torch.h>

#include <set>

using namespace troupe;
using namespace troupe::models;
using namespace troupe::test;

using Catch::Matchers::ContainsSubstring;

namespace {

flat_layout small_layout(config::scalar_type dtype = float32) {
  return flat_layout::from({{"a", {2, 3}}, {"b", {4}}, {"c", {}}}, dtype);
}

/// A network with a layer under two names, and with two layers that share a
/// weight.
class tied_network : public torch::nn::Module {
public:
  tied_network() : first(3, 3) {
    register_module("first", first);
    second = register_module("second", std::make_shared<torch::nn::Module>());
    second->register_parameter("weight", first->weight);
    second->register_parameter("bias", at::zeros({3}));
    register_module("again", first);
  }

  torch::nn::Linear first;
  std::shared_ptr<torch::nn::Module> second;
};

} // namespace

TEST_CASE("slots lie one after another", "[flat-layout]") {
  auto uut = small_layout();
  std::vector<parameter_slot> expected{
    {"a", {2, 3}, 0, 6}, {"b", {4}, 6, 4}, {"c", {}, 10, 1}};
  CHECK((uut.slots() == expected));
  CHECK(uut.count() == 11);
  CHECK(uut.bytes() == 44);
  CHECK(small_layout(float64).bytes() == 88);
}

TEST_CASE("layouts are equal when all of them is", "[flat-layout]") {
  CHECK((small_layout() == small_layout()));
  CHECK((small_layout() != small_layout(float64)));
  CHECK((small_layout() != flat_layout::from({{"a", {2, 3}}}, float32)));
  auto transposed =
    flat_layout::from({{"a", {3, 2}}, {"b", {4}}, {"c", {}}}, float32);
  CHECK((small_layout() != transposed));
}

TEST_CASE("impossible layouts are refused", "[flat-layout]") {
  auto make = [](std::vector<int64_t> shape) {
    return error_line<run_error>([&] {
      flat_layout::from({{"x", shape}}, float32);
    });
  };
  CHECK(make({-1}) == "parameter x has an impossible shape");
  CHECK(make({INT64_MAX, 2}) == "parameter x has an impossible shape");
  CHECK(make({INT64_MAX}) == "parameter x has an impossible shape");
  auto twice = error_line<run_error>([] {
    flat_layout::from({{"x", {1}}, {"x", {1}}}, float32);
  });
  CHECK(twice == "there are two parameters of name x");
}

TEST_CASE("modules of mixed or unfit dtype are refused", "[flat-layout]") {
  torch::nn::Module mixed;
  mixed.register_parameter("x", at::zeros({1}));
  mixed.register_parameter("y", at::zeros({1}, at::kDouble));
  CHECK_THROWS_AS(flat_layout::from(mixed), run_error);
  torch::nn::Module half;
  half.register_parameter("x", at::zeros({1}, at::kHalf));
  CHECK_THROWS_AS(flat_layout::from(half), run_error);
}

TEST_CASE("a tensor with two names has one place", "[flat-layout]") {
  tied_network net;
  auto layout = flat_layout::from(net);
  std::vector<std::string> names, shared;
  for (const auto& slot : layout.slots())
    names.push_back(slot.name);
  for (const auto& slot : layout.state_dict())
    if (!slot.same_as.empty())
      shared.push_back(slot.name + " is " + slot.same_as);
  CHECK(names ==
        std::vector<std::string>{"first.weight", "first.bias", "second.bias"});
  CHECK(shared == std::vector<std::string>{"second.weight is first.weight",
                                           "again.weight is first.weight",
                                           "again.bias is first.bias"});
  CHECK(layout.parameter_count() == 9 + 3 + 3);
  CHECK(layout.state_dict()[2].offset == 0);
  auto flat = at::arange(15, at::kFloat);
  bind_parameters(net, layout, flat);
  CHECK(net.second->parameters()[0].equal(flat.narrow(0, 0, 9).view({3, 3})));
  CHECK(gather(net, layout).equal(flat));
}

TEST_CASE("what is frozen has a buffer of its own", "[flat-layout]") {
  auto net = make_network("resnet20", 10, float32);
  initialise(*net, 1);
  auto& module = net->module();
  auto whole = flat_layout::from(module);
  auto layout = flat_layout::from(
    module, config::parse_key_patterns("conv1.weight,bn1.*,layer[12].*"));
  CHECK(layout.count() + layout.frozen_count() == whole.count());
  CHECK(layout.state_dict().size() == whole.state_dict().size());
  std::set<std::string> frozen;
  for (const auto& slot : layout.frozen())
    frozen.insert(slot.name);
  CHECK(frozen.contains("conv1.weight"));
  CHECK(frozen.contains("layer1.0.bn1.running_var"));
  for (const auto* slots : {&layout.slots(), &layout.statistics()})
    for (const auto& slot : *slots) {
      CHECK_FALSE(frozen.contains(slot.name));
      CHECK_FALSE(slot.frozen);
    }
  whole_weights all{gather(module, layout), gather_frozen(module, layout)};
  CHECK(layout.fits(all.trained));
  CHECK(layout.fits_frozen(all.frozen));
  CHECK(weights_sha256(all, layout) ==
        weights_sha256({gather(module, whole), {}}, whole));
}

TEST_CASE("statistics are frozen by their own keys", "[flat-layout]") {
  auto net = make_network("resnet20", 10, float32);
  auto of = [&](const std::string& freeze) {
    return flat_layout::from(net->module(), config::parse_key_patterns(freeze));
  };
  auto affine = of("bn1.weight,bn1.bias");
  CHECK(affine.frozen().size() == 2);
  auto one = of("bn1.running_mean");
  REQUIRE(one.frozen().size() == 2);
  CHECK(one.frozen()[1].name == "bn1.running_var");
}

TEST_CASE("patterns that freeze nothing or all are refused", "[flat-layout]") {
  auto net = make_network("lenet", 10, float32);
  auto complaint = [&](const std::string& freeze) {
    return error_line<usage_error>([&] {
      flat_layout::from(net->module(), config::parse_key_patterns(freeze));
    });
  };
  CHECK(complaint("conv*,body.*") ==
        "--freeze body.*: matches no tensor of the network");
  CHECK(complaint("*") == "--freeze *: leaves no parameter to train");
  net = make_network("resnet20", 10, float32);
  CHECK(complaint("*.num_batches_tracked") ==
        "--freeze *.num_batches_tracked: matches no tensor of the network");
  torch::nn::Module fixed;
  fixed.register_parameter("x", at::zeros({1}), /*requires_grad=*/false);
  CHECK(error_line<run_error>([&] { flat_layout::from(fixed); }) ==
        "no parameter of the network needs a gradient: there is nothing to "
        "train");
}

TEST_CASE("a layout knows which buffers fit", "[flat-layout]") {
  auto uut = small_layout();
  CHECK(uut.fits(at::zeros({11})));
  CHECK_FALSE(uut.fits(at::zeros({12})));
  CHECK_FALSE(uut.fits(at::zeros({11}, at::kDouble)));
  CHECK_FALSE(uut.fits(at::zeros({22}).slice(0, 0, 22, 2)));
  CHECK_FALSE(uut.fits(at::zeros({11, 1})));
  CHECK_FALSE(uut.fits(at::Tensor{}));
}

TEST_CASE("parameters become views of the buffer", "[flat-layout]") {
  auto net = make_network("lenet", 10, float32);
  auto& module = net->module();
  auto layout = flat_layout::from(module);
  auto flat = at::arange(static_cast<int64_t>(layout.count()), at::kFloat);
  bind_parameters(module, layout, flat);
  auto parameters = module.named_parameters();
  const auto* start = flat.const_data_ptr<float>();
  for (const auto& slot : layout.slots()) {
    const auto& x = parameters[slot.name];
    CHECK(x.const_data_ptr<float>() == start + slot.offset);
    CHECK(x.sizes() == at::IntArrayRef{slot.shape});
    CHECK(x.requires_grad());
  }
  flat.fill_(3);
  CHECK(parameters["fc2.bias"].eq(3).all().item<bool>());
  CHECK(at::equal(gather(module, layout), flat));
}

TEST_CASE("bound parameters keep the memory", "[flat-layout]") {
  auto net = make_network("lenet", 10, float32);
  auto layout = flat_layout::from(net->module());
  auto freed = false;
  std::vector<float> memory(layout.count(), 2);
  bind_parameters(net->module(), layout,
                  at::from_blob(memory.data(),
                                {static_cast<int64_t>(layout.count())},
                                [&](void*) { freed = true; }));
  CHECK_FALSE(freed);
  net.reset();
  CHECK(freed);
}

TEST_CASE("backward adds to bound gradients", "[flat-layout]") {
  auto net = make_network("lenet", 10, float64);
  initialise(*net, 1);
  auto& module = net->module();
  auto layout = flat_layout::from(module);
  auto flat = at::zeros({static_cast<int64_t>(layout.count())}, at::kDouble);
  bind_gradients(module, layout, flat);
  net->forward(at::ones({2, 1, 28, 28}, at::kDouble)).sum().backward();
  const auto& last = layout.slots().back();
  CHECK(last.name == "fc2.bias");
  CHECK(at::equal(layout.view(flat, last), at::full({10}, 2, at::kDouble)));
}

TEST_CASE("what does not fit is not bound", "[flat-layout]") {
  auto net = make_network("lenet", 10, float32);
  auto& module = net->module();
  auto layout = flat_layout::from(module);
  auto flat = at::zeros({static_cast<int64_t>(layout.count())});
  auto line = error_line<run_error>(
    [&] { bind_parameters(module, layout, flat.slice(0, 1)); });
  CHECK_THAT(line, ContainsSubstring("does not fit"));
  auto other = make_network("lenet", 9, float32);
  line = error_line<run_error>(
    [&] { bind_parameters(other->module(), layout, flat); });
  CHECK_THAT(line, ContainsSubstring("fc2.weight differs"));
  CHECK_THROWS_AS(bind_gradients(module, small_layout(), at::zeros({11})),
                  run_error);
}

TEST_CASE("the digest is SHA-256 of the float32 bytes", "[flat-layout]") {
  auto layout = flat_layout::from({{"x", {3}}}, float32);
  // sha256sum of 00 00 80 3f, 00 00 00 c0, 00 00 20 41
  auto expected = std::string{
    "0ae9521791eee874c90786880591d6c1e160ea11a138fe8f30569586b31e69e1"};
  std::vector<float> values{1, -2, 10};
  auto flat = at::from_blob(values.data(), {3}).clone();
  CHECK(weights_sha256({flat, {}}, layout) == expected);
  auto wide = flat_layout::from({{"x", {3}}}, float64);
  CHECK(weights_sha256({flat.to(at::kDouble), {}}, wide) == expected);
  flat[0] = 1.5;
  CHECK(weights_sha256({flat, {}}, layout) != expected);
}
