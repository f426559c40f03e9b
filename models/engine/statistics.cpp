#include "models/engine/statistics.hpp"

#include "models/optim/aggregate.hpp"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/ones_like.h>
#include <ATen/ops/zeros_like.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <type_traits>
#include <vector>

namespace troupe::models {

namespace {

/// Marks the elements that differ between the gradients: not 0 there.
template <class T, class Bits>
void compare(std::vector<Bits>& differ, const std::vector<const T*>& in,
             size_t first) {
  std::ranges::fill(differ, Bits{0});
  for (size_t k = 1; k < in.size(); ++k) {
    const auto* a = in[0] + first;
    const auto* b = in[k] + first;
    for (size_t i = 0; i < differ.size(); ++i)
      differ[i] |= std::bit_cast<Bits>(a[i]) ^ std::bit_cast<Bits>(b[i]);
  }
}

/// The mean of those numbers that are finite; the first if none is.
template <class T>
T mean_of_finite(const std::vector<const T*>& in,
                 std::span<const double> shares, size_t at) {
  double sum = 0;
  double total = 0;
  for (size_t k = 0; k < in.size(); ++k)
    if (std::isfinite(in[k][at])) {
      sum += shares[k] * static_cast<double>(in[k][at]);
      total += shares[k];
    }
  return total > 0 ? static_cast<T>(sum / total) : in[0][at];
}

template <class T>
void average(const at::Tensor& to, const std::vector<at::Tensor>& from,
             std::span<const double> shares) {
  using bits = std::conditional_t<sizeof(T) == 8, uint64_t, uint32_t>;
  blocked_mean<T> mean{from, shares};
  std::vector<const T*> in;
  for (const auto& one : from)
    in.push_back(one.const_data_ptr<T>());
  std::vector<bits> differ;
  auto* out = to.mutable_data_ptr<T>();
  auto count = static_cast<size_t>(to.numel());
  for (size_t first = 0; first < count; first += mean.block()) {
    auto n = std::min(mean.block(), count - first);
    std::copy_n(mean.at(first, n), n, out + first);
    if (in.size() == 1)
      continue;
    differ.resize(n);
    compare(differ, in, first);
    for (size_t i = first; i < first + n; ++i)
      if (differ[i - first] == 0)
        out[i] = in[0][i];
      else if (!std::isfinite(out[i]))
        out[i] = mean_of_finite(in, shares, i);
  }
}

template <class T>
bool is_finite_as(const at::Tensor& before, const at::Tensor& next) {
  const auto* a = before.const_data_ptr<T>();
  const auto* b = next.const_data_ptr<T>();
  for (int64_t i = 0; i < next.numel(); ++i)
    if (std::isfinite(a[i]) && !std::isfinite(b[i]))
      return false;
  return true;
}

/// The same as `average`, and to rounding the same numbers.
void average_on_device(const at::Tensor& to, std::span<const at::Tensor> from,
                       std::span<const double> shares) {
  at::NoGradGuard no_grad;
  auto bits = to.scalar_type() == at::kDouble ? at::kLong : at::kInt;
  auto factors = mean_factors(from, shares);
  auto same = at::ones_like(to, at::kBool);
  auto sum = at::zeros_like(to);     // Of the finite ones.
  auto weights = at::zeros_like(to); // Theirs.
  for (size_t k = 0; k < from.size(); ++k) {
    same.logical_and_(from[k].view(bits).eq(from[0].view(bits)));
    auto finite = from[k].isfinite();
    sum.add_(from[k].where(finite, 0), factors[k]);
    weights.add_(finite, factors[k]);
  }
  auto keeps = same.logical_or_(weights.eq(0));
  to.copy_(from[0].where(keeps, sum.div_(weights)));
}

} // namespace

void merge_statistics(config::buffers_rule rule, const at::Tensor& next,
                      std::span<const at::Tensor> parts,
                      std::span<const double> shares) {
  if (rule == config::buffers_rule::first) {
    parts = parts.first(1);
    shares = shares.first(1);
  }
  if (!next.is_cpu())
    return average_on_device(next, parts, shares);
  std::vector<at::Tensor> from(parts.begin(), parts.end());
  if (next.scalar_type() == at::kDouble)
    average<double>(next, from, shares);
  else
    average<float>(next, from, shares);
}

bool stays_finite(const at::Tensor& before, const at::Tensor& next) {
  if (!next.is_cpu())
    return !before.isfinite()
              .logical_and_(next.isfinite().logical_not_())
              .any()
              .item<bool>();
  return all_finite(next) || (next.scalar_type() == at::kDouble
                                ? is_finite_as<double>(before, next)
                                : is_finite_as<float>(before, next));
}

} // namespace troupe::models
