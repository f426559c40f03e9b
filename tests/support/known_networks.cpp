// Names of networks and optimizers for tests of settings without models. To be
// listed among the sources of a test.

#include "config/schema/known_names.hpp"

namespace {

[[maybe_unused]] const bool networks_are_known = [] {
  for (const auto* each : {"lenet", "mnist_net", "resnet18", "resnet50",
                           "resnet18_cifar", "vgg11_bn", "resnet20"})
    troupe::config::add_network(each);
  for (const auto* each : {"sgd", "adam", "adamw"})
    troupe::config::add_optimizer(each);
  return true;
}();

} // namespace
