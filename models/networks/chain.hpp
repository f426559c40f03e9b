#pragma once
// A network whose forward pass goes through its parts, one after the other: all
// of Troupe's own are. A base class; not thread-safe, like every network.

#include "models/network.hpp"

#include <torch/nn/module.h>

#include <string>
#include <utility>
#include <vector>

namespace troupe::models {

class chain_network : public network {
public:
  explicit chain_network(std::string name) : module_(std::move(name)) {
    // nop
  }

  torch::nn::Module& module() final { return module_; }

  const std::vector<network_part>& parts() final { return parts_; }

  at::Tensor forward(const at::Tensor& inputs, const gradient_places& places,
                     const std::optional<dropout_key>& drop) final {
    auto x = inputs;
    for (const auto& part : parts_)
      x = part.forward(x, {places, drop});
    return x;
  }

protected:
  /// Adds the next part, whose modules are registered already.
  void add(std::vector<std::string> modules, network_part::function forward) {
    parts_.push_back({std::move(modules), std::move(forward)});
  }

private:
  torch::nn::Module module_;
  std::vector<network_part> parts_;
};

} // namespace troupe::models
