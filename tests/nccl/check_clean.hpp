#pragma once
// The checks with which every test over the fake NCCL ends.

#include "tests/nccl/fake_nccl.hpp"

#include <catch2/catch_test_macros.hpp>

namespace fake {

/// Checks that no object is left, that each communicator ended once, and that
/// no rule was broken.
inline void check_clean() {
  CHECK(violations() == std::vector<std::string>{});
  CHECK(alive() == census{});
  CHECK(comms_made() == comms_ended());
}

} // namespace fake
