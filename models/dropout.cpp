#include "models/dropout.hpp"

#include "models/kernels/kernels.hpp"

#include <ATen/TensorOperators.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>

namespace troupe::models {

namespace {

/// Keeps clear of the streams of the data, whose purposes have this bit unset.
constexpr uint64_t dropout_purpose = 0x80000000;

template <class T>
at::Tensor make_mask(const at::Tensor& x, double share, uint32_t layer,
                     const dropout_key& key) {
  auto mask = at::empty(x.sizes(), c10::CppTypeToScalarType<T>::value);
  kernels::dropout_terms<T> terms;
  terms.seed = key.seed;
  terms.subsequence = key.epoch << 32 | (key.first & 0xffffffff);
  terms.block = (dropout_purpose + layer) << 32;
  terms.lowest = static_cast<uint32_t>(share * 0x1p32);
  terms.scale = static_cast<T>(1 / (1 - share));
  kernels::fastest<T>().dropout(terms, mask.template mutable_data_ptr<T>(),
                                static_cast<size_t>(mask.numel()));
  return mask;
}

at::Tensor make_mask(const at::Tensor& x, double share, uint32_t layer,
                     const dropout_key& key) {
  auto mask = x.scalar_type() == at::kDouble
                ? make_mask<double>(x, share, layer, key)
                : make_mask<float>(x, share, layer, key);
  return mask.to(x.options());
}

} // namespace

at::Tensor dropout(const at::Tensor& x, double share, uint32_t layer,
                   const std::optional<dropout_key>& key) {
  if (!key || share == 0)
    return x;
  return x * make_mask(x.detach(), share, layer, *key);
}

} // namespace troupe::models
