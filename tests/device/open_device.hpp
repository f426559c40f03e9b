#pragma once
// Opens the device that a test is about.

#include "models/device/accelerator.hpp"

#include <ATen/Context.h>
#include <c10/core/Device.h>

#include <cstdlib>

namespace troupe::test {

/// The fake device, unless another one is named.
/// @returns how many there are.
inline int open_device() {
  setenv("TROUPE_CUDA_LIBRARY", FAKE_CUDA, 0);
  auto out = models::open_cuda();
  // As exact as the CPU: tensor cores round to ten bits else.
  at::globalContext().setAllowTF32CuDNN(false);
  return out;
}

/// The last device: the second of the fake ones.
inline c10::Device last_device() {
  return {c10::kCUDA, static_cast<c10::DeviceIndex>(open_device() - 1)};
}

} // namespace troupe::test
