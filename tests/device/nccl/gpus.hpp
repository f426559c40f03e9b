#pragma once
// Devices of the fake CUDA and what they compute, for tests of what sends it.

#include "models/device/accelerator.hpp"
#include "models/device/device_tensor.hpp"
#include "models/device/nccl/network.hpp"

#include <ATen/TensorOperators.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/equal.h>
#include <c10/core/StreamGuard.h>
#include <c10/core/impl/VirtualGuardImpl.h>
#include <dlfcn.h>

#include <cstdlib>
#include <stdexcept>

namespace troupe::test {

using namespace models;

inline constexpr uint64_t count = 2000;
inline constexpr payload_shape shape{element_type::float32, count};

/// The double of NCCL, over four devices; or what TROUPE_NCCL_LIBRARY and
/// TROUPE_CUDA_LIBRARY name.
inline nccl::library_ptr fake_library() {
  setenv("TROUPE_CUDA_LIBRARY", FAKE_CUDA, 0);
  setenv("TROUPE_NCCL_LIBRARY", FAKE_NCCL, 0);
  setenv("FAKE_CUDA_DEVICES", "4", 1);
  open_cuda();
  auto found = nccl::library::load();
  if (!found.library)
    throw std::runtime_error(found.why_not);
  return found.library;
}

/// Ranks share devices where there are fewer, and NCCL lets them.
inline int device_of(int rank) {
  return rank % open_cuda();
}

/// What goes wrong from now on (rank.hpp).
inline void spoil(const char* faults) {
  auto* library = dlopen(FAKE_NCCL, RTLD_NOW | RTLD_NOLOAD);
  if (library != nullptr)
    reinterpret_cast<void (*)(const char*)>(dlsym(library, "fake_nccl_spoil"))(
      faults);
}

inline c10::Device gpu(int rank) {
  return {c10::kCUDA, static_cast<c10::DeviceIndex>(device_of(rank))};
}

inline c10::Stream stream_on(int rank) {
  return c10::impl::VirtualGuardImpl{c10::kCUDA}.getStreamFromGlobalPool(
    gpu(rank));
}

inline at::Tensor range(float first, uint64_t size = count) {
  return at::arange(first, first + static_cast<float>(size), at::kFloat);
}

/// Numbers from `first` on, which a stream of the rank's device computes.
inline payload computed(int rank, float first, uint64_t size = count) {
  c10::StreamGuard guard{stream_on(rank)};
  auto flat = range(first - 1, size).to(gpu(rank)) + 1;
  return {{element_type::float32, size},
          std::make_shared<device_tensor>(std::move(flat), nullptr)};
}

/// Whether a device has these numbers, for one of its streams.
inline bool holds(const payload& x, const at::Tensor& expected) {
  if (!x || x.device() == nullptr)
    return false;
  c10::StreamGuard guard{stream_on(x.device()->device())};
  auto flat = static_cast<const device_tensor*>(x.device())->read();
  return at::equal((flat + 0).to(at::kCPU), expected);
}

} // namespace troupe::test
