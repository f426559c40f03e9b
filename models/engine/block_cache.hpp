#pragma once
// Large blocks of memory that are used again and again. The tensors of a
// training step have the same sizes each step; a block that is given back waits
// here for the next request of its size, instead of going back to the kernel
// and being faulted in page by page once more.
//
// Owned by whoever allocates. Thread-safe: a block may be given back by another
// thread than the one that took it.

#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>
#include <unordered_map>
#include <vector>

namespace troupe::models {

/// In bytes.
struct block_usage {
  size_t used = 0;     ///< In blocks that are taken.
  size_t kept = 0;     ///< In blocks that wait for a request.
  size_t peak = 0;     ///< The most that requests came to at a time, in this
                       ///< period and the last one.
  uint64_t mapped = 0; ///< Not bytes: blocks that the kernel gave so far.
};

/// Takes whole pages from the kernel and keeps them. Taken and kept blocks
/// together stay below the limit, and below one and a half times the peak. Only
/// taken blocks may exceed that, since no request is refused for the limit's
/// sake. Where a new block would exceed it, the request gets a larger kept
/// block, if there is one.
class block_cache {
public:
  /// The smallest block here; smaller ones stay with the allocator in use.
  static constexpr size_t smallest = 64 * 1024;

  /// @param limit Bytes.
  explicit block_cache(size_t limit = SIZE_MAX);

  ~block_cache(); ///< Blocks that are still taken stay valid, and are lost.

  block_cache(const block_cache&) = delete;
  block_cache& operator=(const block_cache&) = delete;

  /// A block of at least so many bytes, at the beginning of a page. What lies
  /// in it is arbitrary.
  /// @throws std::bad_alloc if the kernel has no more memory.
  void* take_block(size_t bytes);

  /// Takes a block back; false if it is not from here, and then nothing
  /// happens. Most memory of other allocators is recognised without a lock.
  bool give(const void* at) noexcept;

  /// A lower or higher limit from now on, in bytes.
  void limit(size_t bytes);

  /// All that is kept goes back to the kernel now.
  void drop_kept();

  /// To be called every few seconds: a period ends. What nobody has taken for a
  /// whole period goes back to the kernel.
  void end_period();

  block_usage usage() const;

private:
  struct block {
    void* at = nullptr;
    size_t size = 0;
  };

  struct taken_block {
    size_t size;
    size_t asked; ///< For how much it was taken; no more than its size.
  };

  struct kept_block {
    void* at;
    uint64_t since; ///< Requests so far when it came back.
  };

  using kept_blocks = std::vector<kept_block>; ///< Oldest first.

  size_t bound() const;
  block find(size_t size);
  block take_kept(size_t least, size_t most);
  void drop_oldest(size_t at_most);
  void drop(kept_blocks& from, size_t size);

  mutable std::mutex mutex_;
  size_t limit_;
  std::map<size_t, kept_blocks> kept_; ///< By size.
  std::unordered_map<const void*, taken_block> taken_;
  block_usage usage_;
  size_t asked_ = 0;    ///< By all requests whose blocks are taken.
  size_t peak_now_ = 0; ///< Of this period.
  uint64_t requests_ = 0;
  uint64_t period_began_ = 0; ///< In requests.
};

} // namespace troupe::models
