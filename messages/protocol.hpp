#pragma once

#include <cstddef>
#include <cstdint>

namespace troupe {

/// What two processes must agree on. Raise it with every change of a message,
/// an interface or a type id.
inline constexpr uint32_t protocol_version = 8;

/// Gradients that one peer may have under way at a time; what it sends beyond
/// that takes no memory and costs it the connection.
inline constexpr size_t max_pushes_in_flight = 8;

} // namespace troupe
