// A network that comes as a TorchScript file, trained by the whole cluster.

#include "config/text/failure.hpp"
#include "models/storage/checkpoint.hpp"
#include "tests/simulation/virtual_test.hpp"

#include <catch2/catch_test_macros.hpp>
#include <torch/script.h>

using namespace troupe;
using namespace troupe::test;

namespace {

at::Tensor trained(const at::Tensor& x) {
  return x.detach().set_requires_grad(true);
}

/// Two fully connected layers, with dropout between them.
void save_script(const std::filesystem::path& to) {
  torch::manual_seed(1);
  torch::jit::Module net{"Net"};
  net.register_attribute("training", c10::BoolType::get(), true);
  net.register_parameter("first", trained(torch::randn({32, 784}) * 0.05),
                         false);
  net.register_parameter("second", trained(torch::randn({10, 32}) * 0.1),
                         false);
  net.define("def forward(self, x):\n"
             "  x = torch.relu(torch.linear(x.flatten(1), self.first))\n"
             "  x = torch.dropout(x, 0.2, self.training)\n"
             "  return torch.linear(x, self.second)\n");
  net.save(to.string());
}

} // namespace

TEST_CASE("a script is trained, resumed and saved as any network") {
  troupe::testing::temporary_folder folder;
  save_script(folder / "net.pt");
  auto with = [&](const char* steps) {
    return std::vector<std::string>{"--network",
                                    "script:" + (folder / "net.pt").string(),
                                    "--allow-scripts",
                                    "--workers",
                                    "3",
                                    "--checkpoint-freq",
                                    "40",
                                    "--max-steps",
                                    steps};
  };
  auto whole = run(with("80"));
  CHECK(whole.summary["final_accuracy"] > 0.85);
  run_in(folder / "run", with("40"));
  auto resumed = with("80");
  resumed.insert(resumed.end(), {"--resume", "auto"});
  CHECK(run_in(folder / "run", resumed).sha256() == whole.sha256());
  auto saved = models::read_checkpoint(folder / "run" / "checkpoints" /
                                       models::checkpoint_name(80));
  REQUIRE(saved.model.find("first"));
  CHECK(saved.model.find("first")->shape == std::vector<int64_t>{32, 784});
}

TEST_CASE("a script runs only where that is allowed") {
  troupe::testing::temporary_folder folder;
  save_script(folder / "net.pt");
  CHECK_THROWS_AS(
    run_in(folder / "run",
           {"--network", "script:" + (folder / "net.pt").string()}),
    usage_error);
}

TEST_CASE("a script that does not suit the data is refused before it starts") {
  troupe::testing::temporary_folder folder;
  save_script(folder / "net.pt");
  CHECK_THROWS_AS(run_in(folder / "run",
                         {"--network", "script:" + (folder / "net.pt").string(),
                          "--allow-scripts", "--dataset",
                          "synthetic(shape=3x32x32,classes=10,samples=100)"}),
                  usage_error);
}
