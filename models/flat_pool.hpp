#pragma once
// Flat buffers of one size that are used again: the system takes large blocks
// back and hands them out page by page, at every step, which costs more than to
// fill them.

#include "config/settings.hpp"

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>

namespace troupe::models {

/// Thread-safe. A buffer may outlive its pool.
class flat_pool {
public:
  /// What the pool has done so far.
  struct statistics {
    uint64_t allocated = 0; ///< Buffers taken from the system, ever.
    uint64_t in_use = 0;    ///< Buffers that somebody holds.
    uint64_t free = 0;      ///< Buffers that wait for the next user.
  };

  /// @param count Elements of a buffer.
  flat_pool(uint64_t count, config::scalar_type dtype);

  ~flat_pool();

  flat_pool(const flat_pool&) = delete;
  flat_pool& operator=(const flat_pool&) = delete;

  /// A flat tensor, page-aligned, content arbitrary. Its memory comes back when
  /// the last tensor that shares it is gone, on whichever thread that is.
  /// Throws std::bad_alloc.
  at::Tensor take();

  statistics stats() const;

private:
  class blocks;

  int64_t count_;
  config::scalar_type dtype_;
  std::shared_ptr<blocks> blocks_;
};

} // namespace troupe::models
