#pragma once
// Checks what a program registers under names: networks, data sets, optimisers,
// policies. Before main begins nobody could catch an error, so registries check
// all of their names at the first look-up. Reentrant.

#include <span>
#include <string>
#include <string_view>

namespace troupe::config {

struct registered_name {
  std::string name;
  bool complete = true; ///< All functions that belong to it are there.
};

/// @param kind What has these names, such as `network`.
/// @throws usage_error if one is there twice, is not complete, or is not made
/// of letters, digits and `-_.`, as a folder may be called.
void require_registered(std::string_view kind,
                        std::span<const registered_name> all);

} // namespace troupe::config
