#include "bench/train/wide_network.hpp"

#include <torch/script.h>
#include <torch/utils.h>

#include <cmath>
#include <string>

namespace troupe::bench {

namespace {

void add_layer(torch::jit::Module& net, const std::string& name, int64_t in,
               int64_t out) {
  auto bound = 1 / std::sqrt(static_cast<double>(in));
  auto drawn = [&](at::IntArrayRef shape) {
    return at::empty(shape).uniform_(-bound, bound).set_requires_grad(true);
  };
  net.register_parameter(name + "_weight", drawn({out, in}), false);
  net.register_parameter(name + "_bias", drawn({out}), false);
}

} // namespace

void write_wide_network(const std::filesystem::path& file, int64_t width) {
  torch::manual_seed(1);
  torch::jit::Module net{"Wide"};
  net.register_attribute("training", c10::BoolType::get(), true);
  add_layer(net, "first", 784, width);
  add_layer(net, "last", width, 10);
  net.define("def forward(self, x):\n"
             "  h = torch.linear(x.flatten(1), self.first_weight, "
             "self.first_bias)\n"
             "  return torch.linear(h.relu(), self.last_weight, "
             "self.last_bias)\n");
  net.save(file.string());
}

} // namespace troupe::bench
