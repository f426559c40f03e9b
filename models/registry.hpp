#pragma once
// The networks that make_network knows. A new one is a header and a source
// like lenet's, and a line in registry.cpp.

#include "models/network.hpp"

#include <cstdint>
#include <memory>
#include <string_view>
#include <vector>

namespace troupe::models {

/// A name and how to make that network with float32 parameters.
struct network_entry {
  std::string_view name;
  std::shared_ptr<network> (*make)(int64_t classes);
};

const std::vector<network_entry>& network_registry();

} // namespace troupe::models
