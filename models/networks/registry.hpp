#pragma once
// The networks that make_network knows. A new one is a header and a source
// like lenet's, and a line in registry.cpp.

#include "models/network.hpp"

#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace troupe::models {

/// A name, what that network takes, and how to make it with float32 parameters.
struct network_entry {
  std::string name;
  std::array<int64_t, 3> input; ///< What it was designed for: C, H, W.
  int64_t classes;              ///< The same; any number can be had.
  /// Side of the smallest image that it takes; 0: `input` and no other.
  int64_t smallest;
  std::function<std::shared_ptr<network>(int64_t classes)> make;
};

const std::vector<network_entry>& network_registry();

/// @throws usage_error if the name is unknown.
const network_entry& network_named(const std::string& name);

/// What a network weighs, for the classes that it was designed for.
struct network_size {
  uint64_t parameters = 0;
  uint64_t buffers = 0; ///< Numbers in running statistics and counters.
  uint64_t keys = 0;    ///< Tensors of the state dict.
};

network_size size_of(const network_entry& what);

/// Samples that do not suit the network are the user's error.
/// @param shape C, H, W of a sample.
/// @param classes Of the data; 0: any number. Only a script has its own.
/// @throws usage_error that says what the network takes.
void require_suitable(const std::string& network, const std::string& dataset,
                      const std::vector<int64_t>& shape, int64_t classes = 0);

} // namespace troupe::models
