// Names of networks and optimizers for tests of settings without models. To be
// listed among the sources of a test.

#include "config/schema/known_names.hpp"
#include "config/schema/optimizers.hpp"
#include "config/text/settings.hpp"

namespace {

[[maybe_unused]] const bool networks_are_known = [] {
  for (const auto* each : {"lenet", "mnist_net", "resnet18", "resnet50",
                           "resnet18_cifar", "vgg11_bn", "resnet20"})
    troupe::config::add_network(each);
  using settings = troupe::config::training_settings;
  auto slots = [](uint64_t n) {
    return [n](const settings&) {
      return n;
    };
  };
  troupe::config::add_optimizer(
    {"sgd", [](const settings& s) -> uint64_t { return s.momentum != 0; }, 1e-8,
     true});
  troupe::config::add_optimizer({"adam", slots(2)});
  troupe::config::add_optimizer({"adamw", slots(2)});
  troupe::config::add_loss("cross-entropy", true);
  troupe::config::add_loss("margin", true);
  troupe::config::add_optimizer({"lamb", slots(2), 1e-6});
  troupe::config::add_optimizer({"adagrad", slots(1), 1e-10});
  return true;
}();

} // namespace
