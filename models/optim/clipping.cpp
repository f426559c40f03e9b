#include "models/optim/clipping.hpp"

#include "models/kernels/kernels.hpp"
#include "models/optim/aggregate.hpp"

#include <algorithm>
#include <cmath>

namespace troupe::models {

namespace {

template <class T>
double sum_of_squares(std::span<const at::Tensor> gradients,
                      std::span<const double> shares, size_t count) {
  // The same for any number of gradients, since it fixes the bits of the sum.
  constexpr size_t block = 8 * 1024 / sizeof(T);
  blocked_mean<T> mean{gradients, shares};
  double out = 0;
  for (size_t first = 0; first < count; first += block) {
    auto n = std::min(block, count - first);
    out += kernels::fastest<T>().squares(mean.at(first, n), n);
  }
  return out;
}

} // namespace

double clip_scale(double limit, std::span<const at::Tensor> gradients,
                  std::span<const double> shares, uint64_t count) {
  auto wide =
    !gradients.empty() && gradients.front().scalar_type() == at::kDouble;
  auto squares = wide ? sum_of_squares<double>(gradients, shares, count)
                      : sum_of_squares<float>(gradients, shares, count);
  return std::min(1.0, limit / (std::sqrt(squares) + 1e-6));
}

} // namespace troupe::models
