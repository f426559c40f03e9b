#pragma once
// A network of your own, known by its name like those that Troupe brings: one
// object in a source of your program does it.
//
//   static const troupe::models::register_network mine{
//     {"my_net", {3, 32, 32}, 10, 0, [](int64_t classes) {
//        return std::make_shared<my_net>(classes);
//      }}};
//
// To be made before main begins; not thread-safe.

#include "models/networks/registry.hpp"

namespace troupe::models {

class register_network {
public:
  /// A name that is there already, or is none, is a `usage_error` when networks
  /// are looked up: before main nobody could catch it.
  explicit register_network(network_entry what);
};

} // namespace troupe::models
