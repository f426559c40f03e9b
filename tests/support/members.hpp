#pragma once
// The ids of the workers in tests.

#include "messages/ids.hpp"

namespace troupe::test {

inline constexpr worker_id w0{0};
inline constexpr worker_id w1{1};
inline constexpr worker_id w2{2};

} // namespace troupe::test
