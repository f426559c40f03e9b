#include "models/optim/device_mean.hpp"

#include "models/optim/aggregate.hpp"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/linalg_vector_norm.h>

#include <cmath>
#include <limits>

namespace troupe::models {

at::Tensor mean_on_device(std::span<const at::Tensor> gradients,
                          std::span<const double> shares, double scale) {
  auto factors = mean_factors(gradients, shares);
  at::NoGradGuard no_grad;
  if (factors.size() == 1 && factors.front() * scale == 1)
    return gradients.front();
  auto out = gradients.front().mul(factors.front() * scale);
  for (size_t i = 1; i < gradients.size(); ++i)
    out.add_(gradients[i], factors[i] * scale);
  return out;
}

double squares_on_device(const at::Tensor& x) {
  auto norm = at::linalg_vector_norm(x, 2, std::nullopt, false, at::kDouble)
                .item<double>();
  return norm * norm;
}

at::Tensor largest_on_device(const at::Tensor& x) {
  return at::linalg_vector_norm(x, std::numeric_limits<double>::infinity());
}

bool all_finite_on_device(const at::Tensor& x) {
  return x.numel() == 0 || std::isfinite(largest_on_device(x).item<double>());
}

} // namespace troupe::models
