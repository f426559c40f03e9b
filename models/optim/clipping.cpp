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
  using mean_type = blocked_mean<T>;
  mean_type mean{gradients, shares};
  double out = 0;
  for (size_t first = 0; first < count; first += mean_type::block) {
    auto n = std::min(mean_type::block, count - first);
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
