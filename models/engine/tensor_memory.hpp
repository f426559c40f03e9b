#pragma once
// The memory of this process's tensors. LibTorch asks here for it, on the CPU:
// large blocks come from a block_cache, small ones from the allocator in use,
// as before.
//
// Free functions. The first is called by main before there are threads; the
// others are thread-safe.

#include "models/engine/block_cache.hpp"

#include <cstddef>

namespace troupe::models {

/// From now on large blocks are kept, below this limit in bytes (block_cache).
/// Tensors that exist already stay as they are.
void keep_tensor_memory(size_t limit);

/// To be called every few seconds: blocks that nobody has used since the last
/// call but one go back to the kernel. Does nothing without keep_tensor_memory.
void give_back_idle_tensor_memory();

/// Blocks that nobody uses go back to the kernel at once: after work that is
/// not done again. Does nothing without keep_tensor_memory.
void give_back_kept_tensor_memory();

/// All zero without keep_tensor_memory.
block_usage tensor_memory_usage();

} // namespace troupe::models
