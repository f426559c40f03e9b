#pragma once
// A network of 210 parameters for tests in which only the number of steps
// matters. Programs that are linked with tiny_net.cpp know it as "tiny".

#include <cstdint>

namespace troupe::test {

inline constexpr uint64_t tiny_size = 210;

} // namespace troupe::test
