// Writes a network as Python would save it: write_script FILE SEED.

#include <torch/script.h>

#include <cstdlib>

namespace {

at::Tensor trained(const at::Tensor& x) {
  return x.detach().set_requires_grad(true);
}

} // namespace

int main(int argc, char** argv) {
  if (argc != 3)
    return 2;
  torch::manual_seed(std::strtoull(argv[2], nullptr, 10));
  torch::jit::Module net{"Net"};
  net.register_attribute("training", c10::BoolType::get(), true);
  net.register_parameter("first", trained(torch::randn({10, 784}) * 0.05),
                         false);
  net.define("def forward(self, x):\n"
             "  return torch.linear(x.flatten(1), self.first)\n");
  net.save(argv[1]);
  return 0;
}
