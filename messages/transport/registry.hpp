#pragma once
// All kinds of path. A new one is a folder with its class and its row, and the
// row's name in registry.cpp. Thread-safe: a table that never changes.

#include "messages/transport/wire/path_row.hpp"

#include <span>
#include <string_view>

namespace troupe::transport {

/// In the order of preference for `--transport auto`.
std::span<const path_row> path_rows();

/// Null when there is none of that name.
const path_row* find_row(std::string_view name);

} // namespace troupe::transport
