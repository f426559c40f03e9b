#pragma once
// The workers that tests speak of.

#include "messages/ids.hpp"

namespace troupe::test {

inline constexpr worker_id w0{0};
inline constexpr worker_id w1{1};

} // namespace troupe::test
