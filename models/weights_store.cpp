#include "models/weights_store.hpp"

#include "config/failure.hpp"
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

/// Blocks of one size. Outlives its store while a block is in use.
class pool {
public:
  explicit pool(uint64_t bytes)
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

  weights_store::statistics stats() const {
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

} // namespace

struct weights_store::state {
  int64_t count;
  at::ScalarType dtype;
  std::shared_ptr<pool> memory;
  mutable std::mutex mutex;
  weights_ptr newest;
};

weights_store::weights_store(uint64_t count, config::scalar_type dtype)
  : state_(std::make_unique<state>()) {
  state_->count = static_cast<int64_t>(count);
  state_->dtype = to_aten(dtype);
  state_->memory = std::make_shared<pool>(count * size_of(dtype));
}

weights_store::~weights_store() {
  state_->memory->close();
}

at::Tensor weights_store::next_buffer() {
  auto memory = state_->memory->take();
  auto release = [pool = state_->memory](void* x) {
    pool->give_back(x);
  };
  auto result = at::from_blob(memory.get(), {state_->count}, std::move(release),
                              at::TensorOptions{state_->dtype});
  memory.release();
  return result;
}

at::Tensor weights_store::next_buffer_with_newest() {
  auto current = newest();
  if (!current) {
    throw run_error("there are no weights yet");
  }
  auto result = next_buffer();
  result.copy_(current->flat);
  return result;
}

weights_ptr weights_store::publish(version id, at::Tensor flat) {
  auto result = std::make_shared<const weights_version>(
    weights_version{id, std::move(flat)});
  weights_ptr previous; // let go after the lock
  std::lock_guard guard{state_->mutex};
  previous = std::exchange(state_->newest, result);
  return result;
}

weights_ptr weights_store::newest() const {
  std::lock_guard guard{state_->mutex};
  return state_->newest;
}

weights_store::statistics weights_store::stats() const {
  return state_->memory->stats();
}

} // namespace troupe::models
