#include "actors/runtime/tensor_payload.hpp"

#include "models/device/device_tensor.hpp"
#include "models/guarded.hpp"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/from_blob.h>
#include <c10/core/impl/VirtualGuardImpl.h>

#include <cstddef>
#include <cstring>
#include <memory>
#include <utility>

namespace troupe {

namespace {

at::TensorOptions options_of(const payload_shape& shape) {
  return at::TensorOptions().dtype(
    shape.type == element_type::float64 ? at::kDouble : at::kFloat);
}

} // namespace

payload to_payload(at::Tensor flat, std::shared_ptr<payload_pool> copies) {
  payload_shape shape{flat.scalar_type() == at::kDouble ? element_type::float64
                                                        : element_type::float32,
                      static_cast<uint64_t>(flat.numel())};
  if (!flat.is_cpu())
    return models::guarded("marking numbers on a GPU as written", [&] {
      return payload{shape, std::make_shared<models::device_tensor>(
                              std::move(flat), std::move(copies))};
    });
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

at::Tensor to_tensor(const payload& x, c10::Device where) {
  if (!x || where.is_cpu())
    return to_tensor(x);
  const auto* there = dynamic_cast<const models::device_tensor*>(x.device());
  if (there == nullptr || there->device() != where.index()) {
    at::NoGradGuard no_grad;
    return to_tensor(x).to(where);
  }
  auto first = (x.device_address() - there->address()) /
               static_cast<ptrdiff_t>(size_of(x.shape().type));
  return there->read().narrow(0, first, static_cast<int64_t>(x.shape().count));
}

void copy_numbers(const at::Tensor& to, const at::Tensor& from) {
  at::NoGradGuard no_grad;
  if (to.is_cpu() && from.is_cpu())
    std::memcpy(to.mutable_data_ptr(), from.const_data_ptr(), from.nbytes());
  else
    models::guarded("copying from a GPU", [&] { to.copy_(from); });
}

void write_numbers(const at::Tensor& to, const payload& from) {
  models::guarded("copying to a GPU", [&] {
    at::NoGradGuard no_grad;
    if (to.is_cpu()) {
      to.copy_(to_tensor(from));
      return;
    }
    auto is_on_gpu = from.device() != nullptr;
    to.copy_(is_on_gpu ? to_tensor(from, to.device()) : to_tensor(from),
             /*non_blocking=*/true);
    c10::impl::VirtualGuardImpl device{to.device().type()};
    device.getStream(to.device()).synchronize();
  });
}

at::Tensor to_tensor(payload_buffer& x) {
  return at::from_blob(x.bytes().data(),
                       {static_cast<int64_t>(x.shape().count)},
                       options_of(x.shape()));
}

} // namespace troupe
