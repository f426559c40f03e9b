#include "models/layout/weights_store.hpp"

#include <mutex>
#include <utility>

namespace troupe::models {

namespace {

/// Whether nobody else refers to these weights. Then nobody can any more,
/// because handles are made from handles. Taking and dropping a handle makes
/// the last reader's writes visible here.
bool is_alone(const weights_ptr& weights) {
  const auto& flat = weights->flat;
  if (weights.use_count() > 1 || flat.use_count() > 1 ||
      flat.storage().use_count() > 1)
    return false;
  auto last_reader = weights; // NOLINT(*-unnecessary-copy-initialization)
  auto of_tensor = flat;
  auto of_memory = flat.storage();
  return true;
}

} // namespace

struct weights_store::state {
  template <class Source>
  state(uint64_t count, config::scalar_type dtype, Source source)
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

weights_store::weights_store(uint64_t count, config::scalar_type dtype,
                             c10::Device where)
  : state_(std::make_unique<state>(count, dtype, where)) {
  // nop
}

weights_store::~weights_store() = default;

at::Tensor weights_store::next_buffer() {
  return state_->memory.take_tensor();
}

at::Tensor weights_store::step_buffer() {
  std::lock_guard guard{state_->mutex};
  const auto& newest = state_->newest;
  return newest && is_alone(newest) ? newest->flat
                                    : state_->memory.take_tensor();
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
