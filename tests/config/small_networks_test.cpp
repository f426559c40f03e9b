#include "config/report/report.hpp"
#include "config/rules/small_networks.hpp"
#include "config/runs/shared_settings.hpp"
#include "tests/config/support.hpp"

#include <catch2/catch_test_macros.hpp>

using namespace troupe::config;
using namespace troupe::config::test;

namespace {

const std::string small_data = " --dataset Cifar10 --data-dir d ";

resolved meant(const std::string& line) {
  return parse(split("--simulate " + line)).config;
}

std::string network_of(const std::string& line) {
  return meant(line).values.training.network;
}

/// A run that has these settings, as it was recorded.
run_finder recorded(const std::string& line, const std::string& network) {
  auto all = meant(line).values;
  all.training.network = network;
  auto ini = to_ini(all);
  return [ini](const settings&, bool) {
    return earlier_run{"runs/a", ini, true};
  };
}

resolved resumed(const std::string& line, const run_finder& find) {
  return parse_command_line(split("--simulate --resume auto " + line), {}, find)
    .config;
}

/// What a server that was started with the one says to a node with the other.
std::string said_to(const std::string& node, const settings& server) {
  return conflicts(server, explicit_shared_settings(
                             parse(split("--role worker " + node)).config));
}

} // namespace

TEST_CASE("with small images a name means the network of its family for them",
          "[network]") {
  auto all = meant("--network ResNet18" + small_data);
  CHECK(all.values.training.network == "resnet18_cifar");
  CHECK(all.origin_of("training.network").to_string() == "flag --network");
  CHECK(all.notes ==
        std::vector<std::string>{
          "resnet18_cifar, which resnet18 means with the small images of "
          "cifar10; --image-size 32 asks for resnet18 itself"});
  CHECK(to_ini(all.values).find("network = resnet18_cifar") !=
        std::string::npos);
  CHECK(network_of("--network resnet-18 --dataset "
                   "synthetic(shape=3x32x32,classes=4,samples=64)") ==
        "resnet18_cifar");
  CHECK(parse(split("--role ps --check --network resnet18" + small_data))
          .text.find("--image-size 32") != std::string::npos);
  scratch folder;
  auto file = folder.write("a.ini", "[training]\nnetwork = ResNet18\n"
                                    "[data]\ndataset = CIFAR10\n"
                                    "data-dir = d\n");
  CHECK(network_of("--config " + file) == "resnet18_cifar");
}

TEST_CASE("a name means itself with other images, and where there is no other",
          "[network]") {
  for (const auto& line : std::vector<std::string>{
         "--network resnet18 --dataset folder --data-dir d",
         "--network resnet18 --dataset synthetic(shape=3x64x64)",
         "--network resnet18 --dataset synthetic(shape=1x32x32)",
         "--network resnet18" + small_data + "--image-size 32",
         "--network resnet18" + small_data + "--image-size 224"}) {
    INFO(line);
    CHECK(meant(line).values.training.network == "resnet18");
    CHECK(meant(line).notes.empty());
  }
  CHECK(network_of("--network resnet20" + small_data) == "resnet20");
  CHECK(network_of("--network resnet18_cifar" + small_data) ==
        "resnet18_cifar");
  CHECK(meant("--network resnet18_cifar" + small_data).notes.empty());
  CHECK(complaint([] {
          meant(small_data + "--image-size 64");
        }).starts_with("--image-size 64: is for images of any size"));
}

TEST_CASE("a run that goes on keeps its network, whatever its name would mean",
          "[network]") {
  const auto line = "--network resnet18" + small_data;
  auto older = recorded(line, "resnet18");
  auto newer = recorded(line, "resnet18_cifar");
  for (const auto& given : {std::string{}, line}) {
    INFO(given);
    CHECK(resumed(given, older).values.training.network == "resnet18");
    CHECK(resumed(given, newer).values.training.network == "resnet18_cifar");
  }
  CHECK(resumed("", newer).notes.empty());
  CHECK(complaint([&] {
          resumed("--network resnet18_cifar", older);
        }).find("the run at runs/a has resnet18;") != std::string::npos);
}

TEST_CASE("a node may name the network as the server was asked for it",
          "[network]") {
  auto newer = meant("--network resnet18" + small_data).values;
  auto older = newer;
  older.training.network = "resnet18";
  for (std::string node : {"--network ResNet18", "--network resnet18"})
    for (const auto& data : {std::string{" --data-dir d"}, small_data}) {
      CHECK(said_to(node + data, newer).empty());
      CHECK(said_to(node + data, older).empty());
    }
  CHECK(said_to("--network resnet18_cifar" + small_data, newer).empty());
  CHECK_FALSE(said_to("--network resnet18_cifar" + small_data, older).empty());
  CHECK_FALSE(said_to("--network resnet50" + small_data, newer).empty());
}
