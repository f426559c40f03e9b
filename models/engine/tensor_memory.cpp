#include "models/engine/tensor_memory.hpp"

#include <c10/core/CPUAllocator.h>

namespace troupe::models {

namespace {

/// Lives until the process ends: tensors of static lifetime come back late.
block_cache& tensor_blocks() {
  static auto* out = new block_cache;
  return *out;
}

/// LibTorch's own allocator: for small blocks, and for memory that it gave
/// before ours took its place.
c10::Allocator& small_blocks() {
  return *c10::GetDefaultCPUAllocator();
}

/// Also called with memory that small_blocks() gave, since the cache knows its
/// own blocks. It looks up only addresses at the beginning of a page, where
/// small blocks rarely lie.
void give_tensor_memory(void* at) {
  if (!tensor_blocks().give(at))
    small_blocks().raw_deallocate(at);
}

class caching_allocator final : public c10::Allocator {
public:
  c10::DataPtr allocate(size_t bytes) override {
    auto* at = bytes < block_cache::smallest
                 ? small_blocks().raw_allocate(bytes)
                 : tensor_blocks().take_block(bytes);
    return {at, at, &give_tensor_memory, c10::Device(c10::kCPU)};
  }

  c10::DeleterFnPtr raw_deleter() const override { return &give_tensor_memory; }

  void copy_data(void* to, const void* from, size_t bytes) const override {
    default_copy_data(to, from, bytes);
  }
};

bool keeps_tensor_memory = false;

} // namespace

void keep_tensor_memory(size_t limit) {
  static caching_allocator ours;
  tensor_blocks().limit(limit);
  c10::SetCPUAllocator(&ours, /*priority=*/1);
  keeps_tensor_memory = true;
}

void give_back_idle_tensor_memory() {
  if (keeps_tensor_memory)
    tensor_blocks().end_period();
}

void give_back_kept_tensor_memory() {
  if (keeps_tensor_memory)
    tensor_blocks().drop_kept();
}

block_usage tensor_memory_usage() {
  return keeps_tensor_memory ? tensor_blocks().usage() : block_usage{};
}

} // namespace troupe::models
