#pragma once
// Memory of a GPU that another process of this host opens (CUDA IPC). Each
// block is an allocation of its own: LibTorch's allocator hands out parts of
// larger ones, which cannot be opened by themselves. Owned by whoever shares it
// with one other process.
//
// A block is kept until this process ends: what becomes of one that is freed
// while another process has it open is undefined. So they are for pools.

#include "messages/payload_memory.hpp"
#include "models/device/cuda_runtime.hpp"

#include <c10/core/Device.h>

#include <cstdint>
#include <map>
#include <mutex>
#include <optional>
#include <string>

namespace troupe::models {

/// Thread-safe.
class shared_gpu_memory final : public payload_memory {
public:
  /// @param where Must be open (open_cuda).
  explicit shared_gpu_memory(c10::Device where) : where_(where) {
    // nop
  }

  c10::Device device() const { return where_; }

  /// Throws run_error.
  memory_block take_block(size_t bytes) override;

  /// A block, as the other process opens it.
  struct region {
    uint64_t id = 0; ///< No number of a region in the host's memory.
    uint64_t bytes = 0;
    ipc_handle handle{};
  };

  /// The block that begins at this address; nothing if none does.
  std::optional<region> find(const std::byte* block) const;

private:
  c10::Device where_;
  mutable std::mutex mutex_;
  std::map<const std::byte*, region> all_;
};

/// The GPU at this PCI address, which does not depend on which GPUs a process
/// sees. @pre open_cuda() @throws run_error if this process does not see it.
c10::Device gpu_at(const std::string& address);

} // namespace troupe::models
