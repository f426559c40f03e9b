#include "models/dropout.hpp"

#include <ATen/TensorOperators.h>
#include <ATen/core/PhiloxRNGEngine.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>

namespace troupe::models {

namespace {

/// Keeps clear of the streams of the data, whose purposes have this bit unset.
constexpr uint64_t dropout_purpose = 0x80000000;

template <class T>
void fill(at::Tensor& mask, double share, at::Philox4_32& random) {
  auto lowest = static_cast<uint64_t>(share * 0x1p32); // That stays.
  auto scale = static_cast<T>(1 / (1 - share));
  auto* to = mask.mutable_data_ptr<T>();
  for (int64_t i = 0; i < mask.numel(); ++i)
    to[i] = random() >= lowest ? scale : T{0};
}

at::Tensor make_mask(const at::Tensor& x, double share, uint32_t layer,
                     const dropout_key& key) {
  at::Philox4_32 random{key.seed, key.epoch << 32 | (key.first & 0xffffffff),
                        (dropout_purpose + layer) << 32};
  auto type = x.scalar_type() == at::kDouble ? at::kDouble : at::kFloat;
  auto mask = at::empty(x.sizes(), x.options().dtype(type));
  if (type == at::kDouble)
    fill<double>(mask, share, random);
  else
    fill<float>(mask, share, random);
  return mask.to(x.scalar_type());
}

} // namespace

at::Tensor dropout(const at::Tensor& x, double share, uint32_t layer,
                   const std::optional<dropout_key>& key) {
  if (!key || share == 0)
    return x;
  return x * make_mask(x.detach(), share, layer, *key);
}

} // namespace troupe::models
