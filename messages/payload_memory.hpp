#pragma once
// Allocates the memory of large payloads and uses freed blocks again. Returning
// large blocks to the operating system and getting them back page by page at
// every step would cost more than filling them. A pool belongs to the object
// that makes the payloads (a model, a path); blocks may outlive it.
//
// Everything here is thread-safe.

#include <cstddef>
#include <cstdint>
#include <memory>

namespace troupe {

/// What blocks are aligned to, in bytes.
inline constexpr size_t memory_page = 4096;

/// So many bytes, rounded up to whole pages.
constexpr size_t whole_pages(size_t bytes) {
  return (bytes + memory_page - 1) / memory_page * memory_page;
}

/// A block of memory; dropping the last handle, on any thread, frees it.
using memory_block = std::shared_ptr<std::byte>;

/// A block of the heap at a multiple of `alignment`, a power of two, with
/// arbitrary content. Throws std::bad_alloc.
memory_block allocate_block(size_t bytes, size_t alignment);

/// A source of blocks: the heap, or memory that other processes can see.
class payload_memory {
public:
  virtual ~payload_memory() = default;

  /// A block aligned to a page, with arbitrary content. Throws std::bad_alloc.
  virtual memory_block take_block(size_t bytes) = 0;

  /// Whether a block that this process no longer holds may be written again. It
  /// may not if another process, which can no longer be reached, may still read
  /// it.
  virtual bool reusable(const std::byte*) const { return true; }
};

using payload_memory_ptr = std::shared_ptr<payload_memory>;

/// The heap of this process.
payload_memory_ptr heap_memory();

/// A pool of blocks of one size. A block may outlive its pool.
class payload_pool {
public:
  /// What the pool has done so far.
  struct statistics {
    uint64_t allocated = 0; ///< Blocks taken from the source, ever.
    uint64_t in_use = 0;    ///< Blocks that are held.
    uint64_t free = 0;      ///< Blocks that wait to be used again.
  };

  explicit payload_pool(uint64_t bytes,
                        payload_memory_ptr source = heap_memory());

  ~payload_pool();

  payload_pool(const payload_pool&) = delete;
  payload_pool& operator=(const payload_pool&) = delete;

  /// A block with arbitrary content, which returns to the pool when its last
  /// handle is dropped. Throws std::bad_alloc.
  memory_block take_block();

  statistics stats() const;

private:
  class blocks;

  std::shared_ptr<blocks> blocks_;
};

} // namespace troupe
