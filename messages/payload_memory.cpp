#include "messages/payload_memory.hpp"

#include <algorithm>
#include <cstdlib>
#include <mutex>
#include <new>
#include <utility>
#include <vector>

namespace troupe {

memory_block allocate_block(size_t bytes, size_t alignment) {
  auto rounded =
    (std::max<size_t>(bytes, 1) + alignment - 1) / alignment * alignment;
  auto* memory =
    static_cast<std::byte*>(std::aligned_alloc(alignment, rounded));
  if (memory == nullptr)
    throw std::bad_alloc{};
  return {memory, [](std::byte* ptr) {
            std::free(ptr);
          }};
}

namespace {

class heap final : public payload_memory {
public:
  memory_block take_block(size_t bytes) override {
    return allocate_block(bytes, memory_page);
  }
};

} // namespace

payload_memory_ptr heap_memory() {
  static const payload_memory_ptr the_heap = std::make_shared<heap>();
  return the_heap;
}

/// Outlives its pool while a block is in use.
class payload_pool::blocks : public std::enable_shared_from_this<blocks> {
public:
  blocks(uint64_t bytes, payload_memory_ptr source)
    : bytes_(bytes), source_(std::move(source)) {
    // nop
  }

  memory_block take_block() {
    auto memory = find_or_make();
    auto* data = memory.get();
    // A separate handle, so that the source's handle is still there to return.
    return {data, [from = shared_from_this(),
                   memory = std::move(memory)](std::byte*) mutable {
              from->give_back(std::move(memory));
            }};
  }

  /// From now on returned blocks go to the source.
  void close() {
    std::vector<memory_block> dropped;
    std::lock_guard guard{mutex_};
    closed_ = true;
    dropped.swap(free_);
  }

  payload_pool::statistics stats() const {
    std::lock_guard guard{mutex_};
    return {allocated_, in_use_, free_.size()};
  }

private:
  memory_block find_or_make() {
    std::lock_guard guard{mutex_};
    memory_block result;
    if (free_.empty()) {
      free_.reserve(allocated_ + 1); // so that give_back cannot fail
      result = source_->take_block(static_cast<size_t>(bytes_));
      ++allocated_;
    } else {
      result = std::move(free_.back());
      free_.pop_back();
    }
    ++in_use_;
    return result;
  }

  void give_back(memory_block returned) noexcept {
    std::lock_guard guard{mutex_};
    --in_use_;
    if (!closed_ && source_->reusable(returned.get()))
      free_.push_back(std::move(returned));
  }

  const uint64_t bytes_;
  const payload_memory_ptr source_;
  mutable std::mutex mutex_;
  std::vector<memory_block> free_;
  uint64_t allocated_ = 0;
  uint64_t in_use_ = 0;
  bool closed_ = false;
};

payload_pool::payload_pool(uint64_t bytes, payload_memory_ptr source)
  : blocks_(std::make_shared<blocks>(bytes, std::move(source))) {
  // nop
}

payload_pool::~payload_pool() {
  blocks_->close();
}

memory_block payload_pool::take_block() {
  return blocks_->take_block();
}

payload_pool::statistics payload_pool::stats() const {
  return blocks_->stats();
}

} // namespace troupe
