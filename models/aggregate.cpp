#include "models/aggregate.hpp"

#include "config/failure.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <limits>
#include <string>
#include <type_traits>
#include <vector>

namespace troupe::models {

namespace {

/// Bytes of one block of `out`: it stays in the cache while group after group
/// of gradients is added.
constexpr int64_t block_bytes = 64 * 1024;

/// Gradients that are read side by side. Measured: four streams take half the
/// time of one after another.
constexpr size_t group_size = 4;

/// out = factors * in, or out += factors * in, left to right.
template <bool First, size_t N, class T>
void add_group(T* __restrict out, const T* const* in, const T* factors,
               int64_t count) {
  std::array<const T*, N> from;
  std::array<T, N> factor;
  std::copy_n(in, N, from.begin());
  std::copy_n(factors, N, factor.begin());
  for (int64_t i = 0; i < count; ++i) {
    T sum = First ? T{0} : out[i];
    for (size_t k = 0; k < N; ++k) {
      sum += factor[k] * from[k][i];
    }
    out[i] = sum;
  }
}

template <bool First, class T>
void add_some(T* out, std::span<const T* const> in, const T* factors,
              int64_t count) {
  switch (in.size()) {
  case 1:
    return add_group<First, 1>(out, in.data(), factors, count);
  case 2:
    return add_group<First, 2>(out, in.data(), factors, count);
  case 3:
    return add_group<First, 3>(out, in.data(), factors, count);
  default:
    return add_group<First, 4>(out, in.data(), factors, count);
  }
}

template <class T>
void weighted_sum(T* out, std::span<const at::Tensor> gradients,
                  const std::vector<T>& factors, int64_t count) {
  constexpr int64_t block = block_bytes / sizeof(T);
  std::vector<const T*> in(gradients.size());
  for (int64_t first = 0; first < count; first += block) {
    auto n = std::min(block, count - first);
    for (size_t k = 0; k < in.size(); ++k) {
      in[k] = gradients[k].const_data_ptr<T>() + first;
    }
    for (size_t k = 0; k < in.size(); k += group_size) {
      auto group =
        std::span{in}.subspan(k, std::min(group_size, in.size() - k));
      if (k == 0) {
        add_some<true, T>(out + first, group, factors.data(), n);
      } else {
        add_some<false, T>(out + first, group, factors.data() + k, n);
      }
    }
  }
}

template <class T>
void mean_into(const at::Tensor& out, std::span<const at::Tensor> gradients,
               std::span<const uint64_t> samples, uint64_t total) {
  std::vector<T> factors;
  for (auto n : samples) {
    factors.push_back(
      static_cast<T>(static_cast<double>(n) / static_cast<double>(total)));
  }
  weighted_sum(out.mutable_data_ptr<T>(), gradients, factors, out.numel());
}

/// An exponent of ones only is NaN or infinity. Written without a branch, so
/// that the compiler makes vectors of it.
template <class T>
bool block_is_finite(const T* x, int64_t count) {
  using bits = std::conditional_t<sizeof(T) == 4, uint32_t, uint64_t>;
  constexpr auto exponent =
    std::bit_cast<bits>(std::numeric_limits<T>::infinity());
  bits bad = 0;
  for (int64_t i = 0; i < count; ++i) {
    bad |=
      static_cast<bits>((std::bit_cast<bits>(x[i]) & exponent) == exponent);
  }
  return bad == 0;
}

template <class T>
bool finite(const at::Tensor& flat) {
  constexpr int64_t block = 64 * 1024 / sizeof(T);
  const auto* data = flat.const_data_ptr<T>();
  auto count = flat.numel();
  for (int64_t first = 0; first < count; first += block) {
    if (!block_is_finite(data + first, std::min(block, count - first))) {
      return false;
    }
  }
  return true;
}

bool usable(const at::Tensor& x) {
  return x.defined() && x.device().is_cpu() && x.is_contiguous() &&
         (x.scalar_type() == at::kFloat || x.scalar_type() == at::kDouble);
}

} // namespace

const at::Tensor& weighted_mean(const at::Tensor& out,
                                std::span<const at::Tensor> gradients,
                                std::span<const uint64_t> samples) {
  if (gradients.empty() || gradients.size() != samples.size()) {
    throw run_error(std::to_string(gradients.size()) +
                    " gradients cannot be averaged with " +
                    std::to_string(samples.size()) + " numbers of samples");
  }
  uint64_t total = 0;
  for (auto n : samples) {
    total += n;
  }
  if (total == 0) {
    throw run_error("gradients of no samples cannot be averaged");
  }
  if (gradients.size() == 1) {
    return gradients[0];
  }
  for (const auto& x : gradients) {
    if (!usable(x) || !usable(out) || x.numel() != out.numel() ||
        x.scalar_type() != out.scalar_type()) {
      throw run_error("gradients that differ in size or dtype cannot be "
                      "averaged");
    }
  }
  if (out.scalar_type() == at::kDouble) {
    mean_into<double>(out, gradients, samples, total);
  } else {
    mean_into<float>(out, gradients, samples, total);
  }
  return out;
}

bool all_finite(const at::Tensor& flat) {
  if (!usable(flat)) {
    throw run_error("only contiguous float32 or float64 can be checked for "
                    "NaN");
  }
  return flat.scalar_type() == at::kDouble ? finite<double>(flat)
                                           : finite<float>(flat);
}

} // namespace troupe::models
