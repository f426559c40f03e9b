#pragma once
// Fits the distributions of `--compute-time` to measured times. Pure functions;
// thread-safe.
//
// The distributions are defined in config/values/distribution.hpp and drawn in
// apps/lab/simulation/durations.cpp. Parameters are fitted by maximum
// likelihood:
//
//   gamma      Newton's method for the shape (Choi and Wette, Technometrics 11,
//              1969; starting point: Minka, "Estimating a Gamma distribution",
//              2002)
//   exp        offset and mean with the bias of the least value taken out
//              (Johnson, Kotz and Balakrishnan, Continuous Univariate
//              Distributions 1, 1994, ch. 19)
//   pareto     Hill's estimator over all values (the same, ch. 20), unbiased
//   transient  a mixture of a gamma and the same one stretched, by expectation
//              maximisation (Dempster, Laird and Rubin, 1977)
//   slow       the factor between geometric means; then one of the others
//
// The families are compared by Schwarz's criterion (BIC, 1978): each parameter
// must raise the log likelihood by ln(n) / 2. The Kolmogorov-Smirnov distance
// says how far off a candidate is.

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace troupe::app {

struct candidate {
  std::string compute_time;  ///< For `--compute-time`.
  std::string family;        ///< constant | gamma | exp | pareto | transient
  uint32_t slow_workers = 0; ///< Number of times within slow(...).
  size_t parameters = 0;
  /// Kolmogorov-Smirnov distance: the greatest difference between the shares of
  /// values below t in the sample and in the candidate, in [0, 1].
  double distance = 1;
  /// -2 log likelihood + parameters * log n: the smallest is the best. Infinite
  /// for a constant if the values differ.
  double criterion = 0;
};

/// The fewest times that can be fitted.
inline constexpr uint64_t fewest_times = 50;

/// All candidates, the best first.
/// @pre at least `fewest_times`, each above 0
std::vector<candidate>
fit_compute_times(const std::map<uint32_t, std::vector<double>>& by_worker);

} // namespace troupe::app
