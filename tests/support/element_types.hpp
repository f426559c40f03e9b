#pragma once
// Short names of element types.

#include "config/text/settings.hpp"

namespace troupe::test {

inline constexpr auto float32 = config::scalar_type::float32;
inline constexpr auto float64 = config::scalar_type::float64;

} // namespace troupe::test
