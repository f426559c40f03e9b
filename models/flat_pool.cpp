#include "models/flat_pool.hpp"

#include "models/scalar.hpp"

#include <ATen/ops/from_blob.h>

#include <algorithm>
#include <cstdlib>
#include <mutex>
#include <new>
#include <utility>
#include <vector>

namespace troupe::models {

namespace {

constexpr size_t page = 4096;

struct free_memory {
  void operator()(void* x) const noexcept { std::free(x); }
};

using block = std::unique_ptr<void, free_memory>;

} // namespace

/// Outlives its pool while a block is in use.
class flat_pool::blocks {
public:
  explicit blocks(uint64_t bytes)
    : bytes_(std::max<size_t>(page, (bytes + page - 1) / page * page)) {
    // nop
  }

  block take() {
    std::lock_guard guard{mutex_};
    block result;
    if (free_.empty()) {
      free_.reserve(allocated_ + 1); // so that give_back cannot fail
      result.reset(std::aligned_alloc(page, bytes_));
      if (!result) {
        throw std::bad_alloc{};
      }
      ++allocated_;
    } else {
      result = std::move(free_.back());
      free_.pop_back();
    }
    ++in_use_;
    return result;
  }

  void give_back(void* memory) noexcept {
    block returned{memory};
    std::lock_guard guard{mutex_};
    --in_use_;
    if (!closed_) {
      free_.push_back(std::move(returned));
    }
  }

  /// From here on blocks that come back go to the system.
  void close() {
    std::vector<block> dropped;
    std::lock_guard guard{mutex_};
    closed_ = true;
    dropped.swap(free_);
  }

  flat_pool::statistics stats() const {
    std::lock_guard guard{mutex_};
    return {allocated_, in_use_, free_.size()};
  }

private:
  const size_t bytes_;
  mutable std::mutex mutex_;
  std::vector<block> free_;
  uint64_t allocated_ = 0;
  uint64_t in_use_ = 0;
  bool closed_ = false;
};

flat_pool::flat_pool(uint64_t count, config::scalar_type dtype)
  : count_(static_cast<int64_t>(count)), dtype_(dtype),
    blocks_(std::make_shared<blocks>(count * size_of(dtype))) {
  // nop
}

flat_pool::~flat_pool() {
  blocks_->close();
}

at::Tensor flat_pool::take() {
  auto memory = blocks_->take();
  auto release = [blocks = blocks_](void* x) {
    blocks->give_back(x);
  };
  auto result = at::from_blob(memory.get(), {count_}, std::move(release),
                              at::TensorOptions{to_aten(dtype_)});
  memory.release();
  return result;
}

flat_pool::statistics flat_pool::stats() const {
  return blocks_->stats();
}

} // namespace troupe::models
