#include "models/weights_store.hpp"

#include <mutex>
#include <utility>

namespace troupe::models {

struct weights_store::state {
  state(uint64_t count, config::scalar_type dtype, payload_memory_ptr source)
    : memory(count, dtype, std::move(source)) {
    // nop
  }

  flat_pool memory;
  mutable std::mutex mutex;
  weights_ptr newest;
};

weights_store::weights_store(uint64_t count, config::scalar_type dtype,
                             payload_memory_ptr source)
  : state_(std::make_unique<state>(count, dtype, std::move(source))) {
  // nop
}

weights_store::~weights_store() = default;

at::Tensor weights_store::next_buffer() {
  return state_->memory.take();
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

flat_pool::statistics weights_store::stats() const {
  return state_->memory.stats();
}

} // namespace troupe::models
