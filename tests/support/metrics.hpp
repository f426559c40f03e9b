#pragma once
// What an evaluator finds, for tests.

#include "config/values/metrics.hpp"

namespace troupe::testing {

/// The metrics of a network with few classes, which has no top-5 accuracy.
inline config::metrics found(double accuracy, double loss = 0.5) {
  return {{config::native_metrics::accuracy, accuracy},
          {config::native_metrics::loss, loss}};
}

} // namespace troupe::testing
