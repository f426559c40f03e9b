#pragma once
// What the parts of the topic `simulate` share.

#include "bench/topics.hpp"

#include <array>

namespace troupe::bench {

inline constexpr std::array policies_compared = {"sync", "backup", "ssp",
                                                 "async"};

} // namespace troupe::bench
