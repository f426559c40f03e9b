#pragma once
// Opens the fake device in the process of a test.

#include "models/device/accelerator.hpp"

#include <cstdlib>

namespace troupe::test {

inline void open_fake() {
  setenv("TROUPE_CUDA_LIBRARY", FAKE_CUDA, 1);
  models::open_cuda();
}

} // namespace troupe::test
