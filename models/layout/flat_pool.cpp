#include "models/layout/flat_pool.hpp"

#include "models/scalar.hpp"

#include <ATen/ops/empty.h>
#include <ATen/ops/from_blob.h>

#include <utility>

namespace troupe::models {

flat_pool::flat_pool(uint64_t count, config::scalar_type dtype,
                     payload_memory_ptr source)
  : count_(static_cast<int64_t>(count)), dtype_(dtype),
    blocks_(count * size_of(dtype), std::move(source)) {
  // nop
}

flat_pool::flat_pool(uint64_t count, config::scalar_type dtype,
                     c10::Device where)
  : flat_pool(count, dtype, where, heap_memory()) {
  has_source_ = where.is_cpu();
}

flat_pool::flat_pool(uint64_t count, config::scalar_type dtype,
                     c10::Device where, payload_memory_ptr source)
  : flat_pool(count, dtype, std::move(source)) {
  where_ = where;
}

at::Tensor flat_pool::take_tensor() {
  auto options = at::TensorOptions{to_aten(dtype_)}.device(where_);
  if (!has_source_)
    return at::empty({count_}, options);
  auto memory = blocks_.take_block();
  auto* data = memory.get();
  return at::from_blob(
    data, {count_},
    [memory = std::move(memory)](void*) mutable { memory.reset(); }, options,
    where_);
}

} // namespace troupe::models
