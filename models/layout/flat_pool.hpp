#pragma once
// A pool of flat tensors of one size, whose memory is used again. Owned by the
// object that makes the tensors (weights store, compute engine).

#include "config/text/settings.hpp"
#include "messages/payload_memory.hpp"

#include <ATen/core/Tensor.h>
#include <c10/core/Device.h>

#include <cstdint>

namespace troupe::models {

/// Thread-safe. A buffer may outlive its pool.
class flat_pool {
public:
  using statistics = payload_pool::statistics;

  /// @param count Elements of a buffer.
  /// @param source Where the buffers come from.
  flat_pool(uint64_t count, config::scalar_type dtype,
            payload_memory_ptr source = heap_memory());

  /// Buffers on a GPU, taken for the stream that is current when they are.
  flat_pool(uint64_t count, config::scalar_type dtype, c10::Device where);

  /// Buffers on a GPU from a source of its memory. Whoever drops one sees to it
  /// that nobody uses it any more.
  flat_pool(uint64_t count, config::scalar_type dtype, c10::Device where,
            payload_memory_ptr source);

  /// A flat tensor, page-aligned, with arbitrary content. Its memory returns to
  /// the pool when the last tensor that shares it is dropped, on any thread.
  /// Throws std::bad_alloc.
  at::Tensor take_tensor();

  /// Of the memory that comes from a source.
  statistics stats() const { return blocks_.stats(); }

private:
  int64_t count_;
  config::scalar_type dtype_;
  c10::Device where_ = c10::kCPU;
  bool has_source_ = true; ///< Else `blocks_` is unused: LibTorch has a pool.
  payload_pool blocks_;
};

} // namespace troupe::models
