#pragma once
// Memory that processes of one host share without copying: regions without a
// name (memfd), which the kernel frees when the last process that maps them
// ends. Nothing stays behind, even if processes are killed. Owned by the node,
// which gives it to models and paths.
//
// A region is filled before another process sees it. All of its memory is
// allocated at the start, and it is sealed: it can neither shrink nor grow, so
// that no reader runs off its end. Thread-safe.

#include "messages/payload_memory.hpp"
#include "messages/transport/wire/socket.hpp"

#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>

namespace troupe::transport {

/// Memory that is mapped into this process while the object lives.
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

/// A region that this process made, or one of another process that it reads.
struct shared_region {
  uint64_t id = 0; ///< Never used again in this process.
  descriptor file;
  mapping memory;
  std::shared_ptr<const void> pinned{}; ///< For GPUs, as long as it is mapped.
};

using shared_region_ptr = std::shared_ptr<const shared_region>;

/// Lets GPUs copy from and to memory, as long as the handle lives; whether this
/// process may write to it.
using memory_pinner =
  std::function<std::shared_ptr<const void>(std::span<std::byte>, bool)>;

/// Makes regions, one for each block, and finds the region of a block.
class shared_memory final : public payload_memory {
public:
  shared_memory();
  ~shared_memory() override;

  /// Checks whether blocks of so many bytes can be had: nothing if so, else a
  /// line that says why not.
  static std::optional<std::string> trouble(uint64_t bytes);

  /// Makes one region for each block. Throws std::bad_alloc.
  memory_block take_block(size_t bytes) override;

  bool reusable(const std::byte* block) const override;

  struct place {
    shared_region_ptr region;
    uint64_t offset = 0;
  };

  /// The region and offset of these bytes; nothing if they are in no region of
  /// this process.
  std::optional<place> find(const std::byte* data, uint64_t bytes) const;

  /// Maps a region of another process read-only, as long as the handle lives.
  /// Throws `path_error` unless it is sealed and no larger than `most_bytes`
  /// need.
  shared_region_ptr map_foreign(descriptor file, uint64_t most_bytes);

  /// Has this called for each region from now on, own or of another process,
  /// in a process that copies between them and a GPU. Once, before there are
  /// several threads.
  void pin_with(memory_pinner pinner);

  /// Keeps the files of foreign regions from now on, for a process that shows
  /// them to a third one. Each is an open file.
  void keep_foreign_files();

  /// The same as `find` in those regions of other processes whose files are
  /// kept.
  std::optional<place> find_foreign(const std::byte* data,
                                    uint64_t bytes) const;

  /// Never writes to the block that holds this byte again: a process that can
  /// no longer be reached may still read it.
  void retire(const std::byte* data);

private:
  class regions;

  std::shared_ptr<regions> regions_;
};

/// Takes regions as long as there is memory for them, then the heap.
payload_memory_ptr shared_or_heap(std::shared_ptr<shared_memory> regions);

} // namespace troupe::transport
