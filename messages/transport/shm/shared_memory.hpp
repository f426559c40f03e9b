#pragma once
// Memory that processes of one host share without copying: regions without a
// name (memfd), which the kernel frees with the last process that has them, so
// that nothing stays behind whoever is killed.
//
// A region is filled before anybody else sees it, has all of its memory from
// the start, and is sealed: it can neither shrink nor grow, so that no reader
// falls off its end. Thread-safe.

#include "messages/payload_memory.hpp"
#include "messages/transport/wire/socket.hpp"

#include <memory>
#include <optional>
#include <string>

namespace troupe::transport {

/// Memory that is mapped into this process as long as this lives.
class mapping {
public:
  mapping() = default;

  /// Throws `path_error`.
  mapping(int file, size_t bytes, bool writable);

  mapping(mapping&& other) noexcept;
  mapping& operator=(mapping other) noexcept;
  ~mapping();

  std::byte* data() const { return data_; }
  size_t size() const { return size_; }

private:
  std::byte* data_ = nullptr;
  size_t size_ = 0;
};

/// A region of ours.
struct shared_region {
  uint64_t id = 0; ///< Never used again in this process.
  descriptor file;
  mapping memory;
};

/// Maps somebody else's region, to be read only. Throws `path_error` unless it
/// is sealed, and of a size that `most_bytes` need.
mapping map_foreign(const descriptor& file, uint64_t most_bytes);

/// Makes regions, each a block of memory, and knows where a block lies.
class shared_memory final : public payload_memory {
public:
  shared_memory();
  ~shared_memory() override;

  /// Why there is none for blocks of so many bytes: a line, or nothing.
  static std::optional<std::string> trouble(uint64_t bytes);

  /// A region of its own for each block. Throws std::bad_alloc.
  memory_block take(size_t bytes) override;

  bool reusable(const std::byte* block) const override;

  /// Where bytes lie, if in a region.
  struct place {
    std::shared_ptr<const shared_region> region;
    uint64_t offset = 0;
  };

  std::optional<place> find(const std::byte* data, uint64_t bytes) const;

  /// The block that holds this byte is never written to again: somebody who is
  /// out of reach may read it.
  void retire(const std::byte* data);

private:
  class regions;

  std::shared_ptr<regions> regions_;
};

/// Regions while there is memory for them, then the heap.
payload_memory_ptr shared_or_heap(std::shared_ptr<shared_memory> regions);

} // namespace troupe::transport
