#pragma once

#include <cstdint>

namespace troupe {

/// What two processes must agree on. Raise it with every change of a message,
/// an interface or a type id.
inline constexpr uint32_t protocol_version = 1;

} // namespace troupe
