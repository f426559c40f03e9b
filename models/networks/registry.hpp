#pragma once
// The networks that make_network knows. To add one, write a header and a source
// like lenet's and a line in registry.cpp. Filled before main begins, immutable
// afterwards: any thread may read it.

#include "models/network.hpp"

#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace troupe::models {

/// A network's name, the input it takes, and how to make it with float32
/// parameters.
struct network_entry {
  std::string name;
  std::array<int64_t, 3> input; ///< Shape it was designed for: C, H, W.
  int64_t classes; ///< Classes it was designed for; others work, too.
  /// Side of the smallest image that it accepts; 0: only images of shape
  /// `input`.
  int64_t smallest;
  std::function<std::shared_ptr<network>(int64_t classes)> make;
};

const std::vector<network_entry>& network_registry();

/// @throws usage_error if the name is unknown.
const network_entry& network_named(const std::string& name);

/// The size of a network, for the number of classes it was designed for.
struct network_size {
  uint64_t parameters = 0;
  uint64_t buffers = 0; ///< Elements of running statistics and counters.
  uint64_t keys = 0;    ///< Tensors of the state dict.
};

network_size size_of(const network_entry& entry);

/// What tells a network in a file from others, as 64 hex digits: for a script
/// the SHA-256 of the file, for a description that of what it describes. Empty
/// for a network with a name.
/// @throws run_error if the file cannot be read.
std::string digest_of_network(const std::string& name);

/// Checks that the samples suit the network.
/// @param shape C, H, W of a sample.
/// @param classes Of the data; 0: any number. Only a script has its own.
/// @throws usage_error that says what the network takes.
void require_suitable(const std::string& network, const std::string& dataset,
                      const std::vector<int64_t>& shape, int64_t classes = 0);

} // namespace troupe::models
