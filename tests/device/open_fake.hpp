#pragma once
// The fake device in the place of LibTorch's CUDA part, for tests of one
// process. Called on the test's thread, before LibTorch computes anything.

#include "models/device/accelerator.hpp"

#include <cstdlib>

namespace troupe::testing {

inline void open_fake() {
  setenv("TROUPE_CUDA_LIBRARY", FAKE_CUDA, 1);
  models::open_cuda();
}

} // namespace troupe::testing
