#pragma once
// An optimiser's step in place, for tests of models.

#include "models/optim/optimizer.hpp"
#include "tests/support/element_types.hpp"

namespace troupe::test {

/// A step on one gradient.
inline void step(models::optimizer& uut, at::Tensor& weights,
                 const at::Tensor& gradient, double lr) {
  double share = 64;
  uut.step(weights, weights, {&gradient, 1}, {&share, 1}, lr);
}

} // namespace troupe::test
