#include "models/optim/clipping.hpp"

#include "models/kernels/kernels.hpp"
#include "models/layout/shard_cuts.hpp"
#include "models/optim/aggregate.hpp"
#include "models/optim/device_mean.hpp"

#include <algorithm>
#include <cmath>

namespace troupe::models {

namespace {

template <class T>
exact_sum squares(std::span<const at::Tensor> gradients,
                  std::span<const double> shares) {
  constexpr size_t block = cut_alignment / sizeof(T);
  blocked_mean<T> mean{gradients, shares};
  auto count = static_cast<size_t>(gradients.front().numel());
  exact_sum out;
  for (size_t first = 0; first < count; first += block) {
    auto n = std::min(block, count - first);
    out.add(kernels::fastest<T>().squares(mean.at(first, n), n));
  }
  return out;
}

} // namespace

exact_sum squares_of_mean(std::span<const at::Tensor> gradients,
                          std::span<const double> shares) {
  if (!gradients.empty() && !gradients.front().is_cpu()) {
    exact_sum out;
    out.add(squares_on_device(mean_on_device(gradients, shares)));
    return out;
  }
  auto wide =
    !gradients.empty() && gradients.front().scalar_type() == at::kDouble;
  return wide ? squares<double>(gradients, shares)
              : squares<float>(gradients, shares);
}

double clip_scale(double limit, double squares) {
  return std::min(1.0, limit / (std::sqrt(squares) + 1e-6));
}

} // namespace troupe::models
