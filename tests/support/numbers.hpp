#pragma once
// Short names of element types, and an optimiser's step in place.

#include "config/text/settings.hpp"
#include "models/optim/optimizer.hpp"

namespace troupe::test {

inline constexpr auto float32 = config::scalar_type::float32;
inline constexpr auto float64 = config::scalar_type::float64;

/// A step on one gradient.
inline void step(models::optimizer& uut, at::Tensor& weights,
                 const at::Tensor& gradient, double lr) {
  double share = 64;
  uut.step(weights, weights, {&gradient, 1}, {&share, 1}, lr);
}

} // namespace troupe::test
