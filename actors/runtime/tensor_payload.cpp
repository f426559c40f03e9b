#include "actors/runtime/tensor_payload.hpp"

#include <ATen/ops/from_blob.h>

#include <memory>
#include <utility>

namespace troupe {

namespace {

at::TensorOptions options_of(const payload_shape& shape) {
  return at::TensorOptions().dtype(
    shape.type == element_type::float64 ? at::kDouble : at::kFloat);
}

} // namespace

payload to_payload(at::Tensor flat) {
  payload_shape shape{flat.scalar_type() == at::kDouble ? element_type::float64
                                                        : element_type::float32,
                      static_cast<uint64_t>(flat.numel())};
  static constexpr std::byte nothing{}; // An empty payload has an address.
  const auto* data = flat.numel() == 0
                       ? &nothing
                       : static_cast<const std::byte*>(flat.const_data_ptr());
  return {shape, std::make_shared<at::Tensor>(std::move(flat)), data};
}

at::Tensor to_tensor(const payload& x) {
  if (!x)
    return {};
  // LibTorch has no tensors on constant memory; readers do not write.
  auto* data = const_cast<std::byte*>(x.host_bytes().data());
  return at::from_blob(
    data, {static_cast<int64_t>(x.shape().count)},
    [owner = x.owner()](void*) mutable { owner.reset(); },
    options_of(x.shape()));
}

at::Tensor to_tensor(payload_buffer& x) {
  return at::from_blob(x.bytes().data(),
                       {static_cast<int64_t>(x.shape().count)},
                       options_of(x.shape()));
}

} // namespace troupe
