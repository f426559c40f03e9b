// Names of networks, data sets and optimizers for tests of config without
// models and data. To be listed among the sources of a test.

#include "config/schema/known_names.hpp"

namespace {

[[maybe_unused]] const bool names_are_known = [] {
  for (const auto* each : {"lenet", "mnist_net", "resnet18", "resnet50",
                           "resnet18_cifar", "vgg11_bn", "resnet20"})
    troupe::config::add_network(each);
  for (const auto* each :
       {"mnist", "fashion-mnist", "emnist-letters", "cifar10", "folder", "tar"})
    troupe::config::add_dataset(each, true);
  for (const auto* each : {"digits", "synthetic"})
    troupe::config::add_dataset(each, false);
  for (const auto* each : {"sgd", "adam", "adamw"})
    troupe::config::add_optimizer(each);
  return true;
}();

} // namespace
