#pragma once
// An optimiser's settings, and its step in place, for tests of models.

#include "models/optim/optimizer.hpp"
#include "tests/support/element_types.hpp"

#include <span>
#include <vector>

namespace troupe::test {

/// Settings of an optimiser with the two means of Adam. None of the values is a
/// default.
inline config::training_settings adam_settings(const char* name) {
  config::training_settings s;
  s.optimizer = name;
  s.lr = 0.01;
  s.weight_decay = 0.03;
  s.beta1 = 0.8;
  s.beta2 = 0.95;
  s.epsilon = 1e-7;
  return s;
}

/// Makes a step on these gradients, with factors if the optimiser has them.
/// @param parameters Their number.
inline void step(models::optimizer& uut, const at::Tensor& next,
                 const at::Tensor& current,
                 std::span<const at::Tensor> gradients,
                 std::span<const double> shares, double lr,
                 size_t parameters = 1, const models::lanes& across = {}) {
  std::vector<double> factors;
  if (uut.has_factors())
    factors = models::step_factors(
      uut.measure(current, gradients, shares, 1, across), parameters);
  uut.step(next, current, gradients, shares, lr, 1, across, factors);
}

/// Makes a step on one gradient.
inline void step(models::optimizer& uut, at::Tensor& weights,
                 const at::Tensor& gradient, double lr, size_t parameters = 1) {
  double share = 64;
  step(uut, weights, weights, {&gradient, 1}, {&share, 1}, lr, parameters);
}

} // namespace troupe::test
