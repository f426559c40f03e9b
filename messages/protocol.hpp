#pragma once
// Constants of the wire protocol on which the processes of a run must agree.

#include <cstddef>
#include <cstdint>

namespace troupe {

/// The version that two processes compare when they connect. Raise it with
/// every change of a message, an interface or a type id.
inline constexpr uint32_t protocol_version = 27;

/// The most gradients that one peer may be sending at a time, and the most of
/// its requests that may be open. One more closes the connection. So does one
/// tensor too many that waits for the peer's credit.
inline constexpr size_t max_pushes_in_flight = 8;

} // namespace troupe
