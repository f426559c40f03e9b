#include "models/registry.hpp"

#include "config/failure.hpp"
#include "models/lenet.hpp"
#include "models/scalar.hpp"

#include <torch/nn/module.h>

namespace troupe::models {

network::~network() {
  // nop
}

const std::vector<network_entry>& network_registry() {
  static const std::vector<network_entry> entries{
    {"lenet", make_lenet},
  };
  return entries;
}

std::shared_ptr<network> make_network(const std::string& name, int64_t classes,
                                      config::scalar_type dtype) {
  std::string known;
  for (const auto& entry : network_registry()) {
    if (entry.name == name) {
      auto result = entry.make(classes);
      result->module().to(to_aten(dtype));
      return result;
    }
    known += (known.empty() ? "" : ", ") + std::string{entry.name};
  }
  throw usage_error("unknown network '" + name + "'; there are: " + known);
}

std::vector<std::string> network_names() {
  std::vector<std::string> result;
  for (const auto& entry : network_registry()) {
    result.emplace_back(entry.name);
  }
  return result;
}

} // namespace troupe::models
