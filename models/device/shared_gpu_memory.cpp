#include "models/device/shared_gpu_memory.hpp"

#include "config/text/failure.hpp"

#include <c10/core/DeviceGuard.h>

namespace troupe::models {

namespace {

/// Regions in the host's memory are counted from 1 on.
constexpr uint64_t first_id = uint64_t{1} << 63;

/// What CUDA hands out at a time. Whoever opens a smaller block could use the
/// other blocks beside it.
constexpr size_t whole = 2u << 20;

} // namespace

memory_block shared_gpu_memory::take_block(size_t bytes) {
  const auto& cuda = cuda_runtime::get();
  bytes = (bytes + whole - 1) / whole * whole;
  c10::DeviceGuard guard{where_};
  void* memory = nullptr;
  cuda.require(cuda.allocate(&memory, bytes),
               "taking " + std::to_string(bytes >> 20) + " MiB of " +
                 where_.str() +
                 " for weights or a gradient, beside what the program that "
                 "computes uses,");
  auto* block = static_cast<std::byte*>(memory);
  region made{0, bytes, {}};
  cuda.require(cuda.handle_of(&made.handle, memory),
               "sharing memory of the GPU");
  std::lock_guard lock{mutex_};
  made.id = first_id + all_.size();
  all_.emplace(block, made);
  return {block, [](std::byte*) {
            // Kept: see above.
          }};
}

auto shared_gpu_memory::find(const std::byte* block) const
  -> std::optional<region> {
  std::lock_guard lock{mutex_};
  auto found = all_.find(block);
  return found == all_.end() ? std::nullopt : std::optional{found->second};
}

c10::Device gpu_at(const std::string& address) {
  const auto& cuda = cuda_runtime::get();
  int index = 0;
  cuda.require(cuda.device_at(&index, address.c_str()),
               "looking for the GPU " + address);
  return {c10::kCUDA, static_cast<c10::DeviceIndex>(index)};
}

} // namespace troupe::models
