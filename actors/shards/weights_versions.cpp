#include "actors/shards/weights_versions.hpp"

#include "actors/runtime/tensor_payload.hpp"
#include "models/device/device_tensor.hpp"
#include "models/guarded.hpp"
#include "models/scalar.hpp"

#include <utility>
#include <vector>

namespace troupe {

namespace {

models::weights_store make_store(uint64_t count, config::scalar_type dtype,
                                 c10::Device where,
                                 const payload_memory_ptr& memory) {
  if (where.is_cpu())
    return {count, dtype, memory};
  return {count, dtype, where};
}

} // namespace

weights_versions::weights_versions(uint64_t count, config::scalar_type dtype,
                                   c10::Device where, payload_memory_ptr memory,
                                   bool remote_readers)
  : where_(where), remote_readers_(remote_readers),
    store_(make_store(count, dtype, where, memory)),
    copies_(where.is_cpu() ? nullptr
                           : models::pool_of_copies(
                               count * models::size_of(dtype), memory)) {
  // nop
}

payload weights_versions::newest() const {
  auto flat = newest_ ? at::Tensor{} : newest_flat();
  return flat.defined() ? to_payload(std::move(flat), copies_) : newest_;
}

at::Tensor weights_versions::newest_flat() const {
  auto newest = store_.newest();
  return newest ? newest->flat : at::Tensor{};
}

at::Tensor weights_versions::step_buffer() {
  if (!newest_ || newest_.owner().use_count() > 1)
    return store_.next_buffer();
  const auto* there =
    static_cast<const models::device_tensor*>(newest_.device());
  const void* before = newest_.device_address();
  std::vector<c10::Stream> readers;
  if (there != nullptr)
    readers = there->take_readers();
  newest_ = {};
  auto out = store_.step_buffer();
  if (out.const_data_ptr() == before)
    models::wait_for(readers, out);
  else if (!readers.empty()) // Somebody has a tensor of it still.
    models::keep_for(readers, newest_flat());
  return out;
}

void weights_versions::publish(version id, at::Tensor flat) {
  newest_ = to_payload(store_.publish(id, std::move(flat))->flat, copies_);
  if (remote_readers_)
    newest_.host_bytes();
}

payload weights_versions::place(const payload& numbers) const {
  const auto* there = numbers.device();
  if (where_.is_cpu() || !numbers ||
      (there != nullptr && there->device() == where_.index()))
    return numbers;
  auto out = models::guarded("copying a gradient to a GPU", [&] {
    return to_payload(to_tensor(numbers, where_));
  });
  if (auto finite = numbers.finite())
    out.know_finite(*finite);
  return out;
}

} // namespace troupe
