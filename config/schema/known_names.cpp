#include "config/schema/known_names.hpp"

#include "config/values/synthetic.hpp"

#include <utility>
#include <vector>

namespace troupe::config {

namespace {

using words = std::vector<std::string>;

/// Those that a program adds.
words& added_networks() {
  static words names;
  return names;
}

} // namespace

void add_network(std::string name) {
  added_networks().push_back(std::move(name));
}

std::span<const std::string> known_networks() {
  static const words all = [] {
    words names{"lenet", "mnist_net"};
    for (const std::string input : {"", "_cifar"}) {
      for (auto depth : {"18", "34", "50", "101", "152"})
        names.push_back("resnet" + std::string{depth} + input);
      for (auto depth : {"11", "13", "16", "19"})
        for (auto normalised : {"", "_bn"})
          names.push_back("vgg" + std::string{depth} + normalised + input);
    }
    for (auto depth : {"20", "32", "44", "56", "110"})
      names.push_back("resnet" + std::string{depth});
    names.insert(names.end(), added_networks().begin(), added_networks().end());
    return names;
  }();
  return all;
}

std::span<const std::string> known_datasets() {
  static const words all{"digits",
                         "mnist",
                         "fashion-mnist",
                         "emnist-balanced",
                         "emnist-byclass",
                         "emnist-bymerge",
                         "emnist-digits",
                         "emnist-letters",
                         "emnist-mnist",
                         "cifar10",
                         "cifar100",
                         "folder",
                         "tar",
                         "synthetic"};
  return all;
}

std::span<const std::string> known_optimizers() {
  static const words all{"sgd", "adam", "adamw"};
  return all;
}

bool reads_files(const std::string& dataset) {
  return dataset != "digits" && !is_synthetic(dataset);
}

} // namespace troupe::config
