// Networks that come as TorchScript files.

#include "config/text/failure.hpp"
#include "models/engine/compute.hpp"
#include "models/layout/flat_layout.hpp"
#include "models/networks/script.hpp"
#include "tests/support/decay.hpp"
#include "tests/support/error_line.hpp"
#include "tests/support/temporary_folder.hpp"

#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>
#include <sys/stat.h>
#include <torch/script.h>
#include <torch/torch.h>

#include <algorithm>
#include <filesystem>
#include <fstream>

using namespace troupe;
using namespace troupe::models;
using Catch::Matchers::ContainsSubstring;
using Catch::Matchers::StartsWith;

namespace {

at::Tensor trained(const at::Tensor& x) {
  return x.detach().set_requires_grad(true);
}

/// One fully connected layer inside another module, as Python saves it.
torch::jit::Module make_script(const std::string& forward) {
  torch::manual_seed(1);
  torch::jit::Module inner{"Inner"};
  inner.register_parameter("weight", trained(torch::randn({10, 784}) * 0.1),
                           false);
  inner.register_parameter("bias", trained(torch::zeros({10})), false);
  inner.register_buffer("running_mean", torch::ones({10}));
  inner.define("def forward(self, x):\n"
               "  return torch.linear(x, self.weight, self.bias)\n");
  torch::jit::Module out{"Net"};
  out.register_module("inner", inner);
  out.register_attribute("training", c10::BoolType::get(), true);
  out.define("def forward(self, x):\n" + forward);
  return out;
}

constexpr const char* plain = "  return self.inner.forward(x.flatten(1))\n";

struct saved {
  explicit saved(const torch::jit::Module& script) { script.save(file); }

  explicit saved(const std::string& forward = plain)
    : saved(make_script(forward)) {
    // nop
  }

  troupe::testing::temporary_folder folder;
  std::string file = (folder / "net.pt").string();
};

const std::vector<int64_t> digit{1, 28, 28};

} // namespace

TEST_CASE("a script has the parameters and buffers of its file", "[script]") {
  saved at;
  auto net = load_script(at.file);
  auto layout = flat_layout::from(net->module());
  CHECK(layout.parameter_count() == 7850);
  REQUIRE(layout.slots().size() == 2);
  CHECK(layout.slots()[0].name == "inner.weight");
  CHECK(layout.statistics().size() == 1);
  auto weights = gather(net->module(), layout);
  net->module().parameters()[0].detach().zero_();
  REQUIRE(net->restore());
  CHECK(gather(net->module(), layout).equal(weights));
}

TEST_CASE("a script computes on the memory that its parameters are bound to",
          "[script]") {
  saved at;
  auto net = load_script(at.file);
  auto x = torch::ones({3, 1, 28, 28});
  auto parameters = net->module().parameters();
  parameters[0].set_data(torch::full({10, 784}, 2.0));
  parameters[1].set_data(torch::full({10}, 0.5));
  auto scores = net->forward(x);
  CHECK(scores.equal(torch::full({3, 10}, 1568.5)));
  auto gradients = torch::autograd::grad({scores.sum()}, parameters);
  CHECK(gradients[0].equal(torch::full({10, 784}, 3.0)));
  CHECK(gradients[1].equal(torch::full({10}, 3.0)));
}

TEST_CASE("a script's fully connected layers write gradients to their places",
          "[script]") {
  struct layer_use {
    const char* forward;
    std::vector<int64_t> shape;
    bool in_place;
  };
  for (const auto& [forward, shape, in_place] : {
         layer_use{plain, {3, 1, 28, 28}, true},
         layer_use{"  y = x\n"
                   "  for i in range(2):\n"
                   "    y = self.inner.forward(x.flatten(1) + i)\n"
                   "  return y\n",
                   {3, 1, 28, 28},
                   false},
         layer_use{"  return self.inner.forward(x.flatten(1)) + "
                   "self.inner.forward(x.flatten(1).relu())\n",
                   {3, 1, 28, 28},
                   false},
         layer_use{"  return torch.linear(x.flatten(1), self.inner.weight) +"
                   " self.inner.bias\n",
                   {3, 1, 28, 28},
                   true},
         layer_use{
           "  return self.inner.forward(x)[:, 0, :]\n", {3, 2, 784}, true},
       }) {
    INFO(forward);
    saved at{forward};
    auto net = load_script(at.file);
    auto x = torch::randn(shape);
    auto parameters = net->module().parameters();
    auto gradients_of = [&](const gradient_places& places) {
      return torch::autograd::grad({net->forward(x, places).sin().sum()},
                                   parameters);
    };
    auto expected = gradients_of({});
    auto flat = torch::full({7850}, 99.0);
    gradient_places places;
    places.set(parameters[0], flat.narrow(0, 0, 7840).view({10, 784}));
    places.set(parameters[1], flat.narrow(0, 7840, 10));
    auto found = gradients_of(places);
    for (size_t i : {0u, 1u}) {
      CHECK(found[i].equal(expected[i]));
    }
    if (in_place)
      CHECK(found[0].data_ptr() == places[0].data_ptr());
    CHECK(gradients_of({})[0].equal(expected[0]));
  }
}

TEST_CASE("what a script draws depends on the key alone", "[script]") {
  saved at{"  return self.inner.forward(torch.dropout(x.flatten(1), 0.5, "
           "self.training))\n"};
  auto net = load_script(at.file);
  auto x = torch::ones({3, 1, 28, 28});
  net->module().train();
  dropout_key key{1, 2, 3};
  auto first = net->forward(x, {}, key);
  CHECK_FALSE(net->forward(x, {}, dropout_key{1, 2, 4}).equal(first));
  CHECK(net->forward(x, {}, key).equal(first));
  net->module().eval();
  CHECK(net->forward(x, {}, key).equal(net->forward(x)));
  CHECK_FALSE(net->forward(x).equal(first));
}

TEST_CASE("a script's normalising layers are known by their class",
          "[script]") {
  auto layer = [](const std::string& name, std::vector<int64_t> shape) {
    torch::jit::Module out{"__torch__.torch.nn.modules." + name};
    out.register_parameter("weight", trained(torch::ones(shape)), false);
    return out;
  };
  torch::jit::Module script{"__torch__.Net"};
  script.register_module("norm", layer("normalization.LayerNorm", {1, 28, 28}));
  script.register_module("slope", layer("activation.PReLU", {10}));
  script.register_module("fc", layer("linear.Linear", {10, 784}));
  script.register_attribute("training", c10::BoolType::get(), true);
  script.define(
    "def forward(self, x):\n"
    "  y = (x * self.norm.weight).flatten(1)\n"
    "  return torch.linear(y, self.fc.weight) * self.slope.weight\n");
  saved at{script};
  auto net = load_script(at.file);
  auto plain = troupe::test::without_decay(flat_layout::from(net->module()),
                                           config::decay_exclusion::norm);
  REQUIRE(plain.size() == 1);
  CHECK(plain.front().first == 0);
  CHECK(plain.front().count == 784);
}

TEST_CASE("a weight with two names is stored and stepped once", "[script]") {
  torch::jit::Module script{"Net"};
  auto weight = trained(torch::randn({10, 10}));
  script.register_parameter("body", trained(torch::randn({10, 784})), false);
  script.register_parameter("a", weight, false);
  script.register_parameter("b", weight, false);
  script.register_attribute("training", c10::BoolType::get(), true);
  script.define("def forward(self, x):\n"
                "  h = torch.linear(torch.linear(x.flatten(1), self.body),"
                " self.a)\n"
                "  return torch.linear(h.relu(), self.b)\n");
  saved at{script};
  config::training_settings settings;
  settings.network = "script:" + at.file;
  compute_engine engine{settings, 10};
  const auto& layout = engine.layout();
  REQUIRE(layout.slots().size() == 2);
  CHECK(layout.state_dict().size() == 3);
  auto weights = torch::empty({static_cast<int64_t>(layout.count())});
  engine.initial_weights(weights, 1);
  auto x = torch::randn({4, 1, 28, 28});
  auto targets = torch::arange(4);
  auto gradient = torch::full_like(weights, 7);
  engine.run(weights, x, targets, gradient);

  auto part = [&](const at::Tensor& flat, const char* name) {
    return layout.view(flat, *std::ranges::find(layout.state_dict(), name,
                                                &parameter_slot::name));
  };
  auto w = part(weights, "a").clone();
  CHECK(w.equal(weight.detach()));
  CHECK(part(weights, "b").data_ptr() == part(weights, "a").data_ptr());
  w.requires_grad_(true);
  auto h = torch::linear(torch::linear(x.flatten(1), part(weights, "body")), w);
  auto loss = torch::cross_entropy_loss(torch::linear(h.relu(), w), targets);
  auto expected = torch::autograd::grad({loss}, {w})[0];
  CHECK(part(gradient, "b").allclose(expected, 1e-4, 1e-6));
}

TEST_CASE("a script's parameters that need no gradient are frozen",
          "[script]") {
  torch::jit::Module script{"Net"};
  script.register_parameter("body", torch::randn({784, 784}), false);
  script.register_parameter("head", trained(torch::randn({10, 784})), false);
  script.register_attribute("training", c10::BoolType::get(), true);
  script.define("def forward(self, x):\n"
                "  h = torch.linear(x.flatten(1), self.body).relu()\n"
                "  return torch.linear(h, self.head)\n");
  saved at{script};
  auto net = load_script(at.file);
  auto layout = flat_layout::from(net->module());
  CHECK(layout.parameter_count() == 7840);
  CHECK(layout.frozen_count() == 784 * 784);
}

TEST_CASE("a part of a script can normalise by its statistics while others "
          "train",
          "[script]") {
  auto norm = [] {
    torch::jit::Module out{"__torch__.torch.nn.modules.batchnorm.BatchNorm1d"};
    out.register_parameter("weight", trained(torch::ones({784})), false);
    out.register_parameter("bias", trained(torch::zeros({784})), false);
    out.register_buffer("running_mean", torch::zeros({784}));
    out.register_buffer("running_var", torch::ones({784}));
    out.register_attribute("training", c10::BoolType::get(), true);
    out.define("def forward(self, x):\n"
               "  return torch.batch_norm(x, self.weight, self.bias,"
               " self.running_mean, self.running_var, self.training, 0.1,"
               " 1e-5, False)\n");
    return out;
  };
  torch::jit::Module script{"Net"};
  script.register_module("a", norm());
  script.register_module("b", norm());
  script.register_attribute("training", c10::BoolType::get(), true);
  script.define("def forward(self, x):\n"
                "  return self.b.forward(self.a.forward(x.flatten(1)))"
                "[:, 0:10]\n");
  saved at{script};
  config::training_settings settings;
  settings.network = "script:" + at.file;
  settings.freeze = "a.*";
  compute_engine engine{settings, 10};
  const auto& layout = engine.layout();
  CHECK(layout.frozen_count() == 4 * 784);
  auto weights = torch::empty({static_cast<int64_t>(layout.count())});
  engine.initial_weights(weights, 1);
  auto gradient = torch::empty_like(weights);
  auto x = torch::randn({8, 1, 28, 28}) * 3 + 5;
  engine.run(weights, x, torch::arange(8), gradient);
  // The statistics of `b` move towards those of its inputs, which `a` has let
  // through, since its own are 0 and 1.
  auto mean = layout.view(gradient, layout.statistics().front());
  CHECK(mean.allclose(x.flatten(1).mean(0) * 0.1, 1e-3, 1e-3));
}

TEST_CASE("files that are no script are refused with a line", "[script]") {
  saved at;
  auto complaint = [&] {
    return test::error_line<run_error>([&] { load_script(at.file); });
  };
  std::ofstream{at.file} << "no script";
  CHECK_THAT(complaint(), StartsWith(at.file + ": is no TorchScript file"));
  CHECK(complaint().find('\n') == std::string::npos);
  at.file += ".absent";
  CHECK_THAT(complaint(), StartsWith(at.file + ": is no TorchScript file"));
  REQUIRE(::mkfifo(at.file.c_str(), 0600) == 0);
  CHECK(complaint() == at.file + ": is no TorchScript file that can be loaded: "
                                 "it is not a regular file");
  std::filesystem::remove(at.file);
}

TEST_CASE("parameters that cannot be trained are refused by name", "[script]") {
  auto complaint = [](auto change) {
    auto script = make_script(plain);
    change(script);
    saved at{script};
    auto line = test::error_line<run_error>([&] { load_script(at.file); });
    CHECK_THAT(line, StartsWith(at.file + ": "));
    return line.substr(at.file.size() + 2);
  };
  CHECK(complaint([](auto& script) {
          script.register_parameter(
            "x", trained(torch::zeros({1}, at::kDouble)), false);
        }) == "parameter x is not float32");
}

TEST_CASE("a script that does not suit the data is refused", "[script]") {
  auto complaint = [](const std::string& forward,
                      const std::vector<int64_t>& shape) {
    saved at{forward};
    auto net = load_script(at.file);
    return test::error_line<usage_error>(
      [&] { require_scores(*net, "script:x", "these", shape, 10); });
  };
  saved good;
  CHECK_NOTHROW(
    require_scores(*load_script(good.file), "script:x", "these", digit, 10));
  CHECK_THAT(complaint(plain, {3, 32, 32}),
             StartsWith("--network script:x: a batch of 2x3x32x32 (these) is "
                        "not taken: "));
  CHECK(
    complaint("  return self.inner.forward(x.flatten(1)).sum(1)\n", digit) ==
    "--network script:x: a batch of 2x1x28x28 (these) gives 2, not 2 rows "
    "of scores for the 10 classes");
}

TEST_CASE("an error inside a script shows its cause", "[script]") {
  saved at{"  assert x.size(0) > 1, \"needs two samples\"\n"
           "  return self.inner.forward(x.flatten(1))\n"};
  config::training_settings settings;
  settings.network = "script:" + at.file;
  compute_engine engine{settings, 10};
  auto weights = torch::empty({static_cast<int64_t>(engine.layout().count())});
  engine.initial_weights(weights, 1);
  auto gradient = torch::empty_like(weights);
  auto complaint = [&](const std::vector<int64_t>& shape) {
    return test::error_line<run_error>([&] {
      engine.run(weights, torch::zeros(shape),
                 torch::zeros({shape[0]}, at::kLong), gradient);
    });
  };
  auto line = complaint({1, 1, 28, 28});
  CHECK_THAT(line, StartsWith("computing a gradient failed: "));
  CHECK_THAT(line, ContainsSubstring("needs two samples"));
  CHECK(line.find('\n') == std::string::npos);
  CHECK_THAT(complaint({2, 1, 5, 5}),
             ContainsSubstring("RuntimeError: mat1 and mat2 shapes"));
}
