#pragma once
// Where the memory of large payloads comes from, and how it is used again. The
// system takes large blocks back and hands them out page by page, at every
// step, which costs more than to fill them.
//
// Thread-safe, all of it.

#include <cstddef>
#include <cstdint>
#include <memory>

namespace troupe {

/// A block of memory; the last handle gives it back, on any thread.
using memory_block = std::shared_ptr<std::byte>;

/// A source of blocks: the heap, or memory that other processes can see.
class payload_memory {
public:
  virtual ~payload_memory() = default;

  /// A block aligned to a page, content arbitrary. Throws std::bad_alloc.
  virtual memory_block take(size_t bytes) = 0;

  /// Whether a block that nobody here holds any more may be written to: a
  /// process that is out of reach may still read it.
  virtual bool reusable(const std::byte*) const { return true; }
};

using payload_memory_ptr = std::shared_ptr<payload_memory>;

/// The heap of this process.
payload_memory_ptr heap_memory();

/// Blocks of one size that are used again. A block may outlive its pool.
class payload_pool {
public:
  /// What the pool has done so far.
  struct statistics {
    uint64_t allocated = 0; ///< Blocks taken from the source, ever.
    uint64_t in_use = 0;    ///< Blocks that somebody holds.
    uint64_t free = 0;      ///< Blocks that wait for the next user.
  };

  explicit payload_pool(uint64_t bytes,
                        payload_memory_ptr source = heap_memory());

  ~payload_pool();

  payload_pool(const payload_pool&) = delete;
  payload_pool& operator=(const payload_pool&) = delete;

  /// A block, content arbitrary. It comes back when its last handle is gone.
  /// Throws std::bad_alloc.
  memory_block take();

  statistics stats() const;

private:
  class blocks;

  std::shared_ptr<blocks> blocks_;
};

} // namespace troupe
