#pragma once
// Registers a network of your own under a name, like those of Troupe: define
// one such object in a source file of your program.
//
//   static const troupe::models::register_network mine{
//     {"my_net", {3, 32, 32}, 10, 0, [](int64_t classes) {
//        return std::make_shared<my_net>(classes);
//      }}};
//
// To be constructed before main begins; not thread-safe.

#include "models/networks/registry.hpp"

namespace troupe::models {

class register_network {
public:
  /// An invalid or repeated name is reported as a `usage_error` when networks
  /// are looked up: before main nobody could catch it.
  explicit register_network(network_entry entry);
};

} // namespace troupe::models
