#pragma once
// The distributions that `fit_compute_times` tries, each fitted to values by
// maximum likelihood; fit.hpp names the sources. Pure functions; thread-safe.

#include <functional>
#include <limits>
#include <string>
#include <vector>

namespace troupe::app {

using numbers = std::vector<double>;

/// A distribution with fitted parameters.
struct fitted_distribution {
  std::string family; ///< constant | gamma | exp | pareto | transient
  std::string text;   ///< For `--compute-time`.
  size_t parameters = 0;
  double log_likelihood = -std::numeric_limits<double>::infinity();
  std::function<numbers(const numbers&)> below; ///< P(T < t) for each t.
};

/// What is slower by a smaller factor does not count as slow.
inline constexpr double least_factor = 1.2;

/// All distributions that the values can have; of equal values a constant
/// alone.
/// @pre values are sorted and above 0, and there are at least three
std::vector<fitted_distribution> fit_families(const numbers& sorted);

/// By how much a measured time may differ from the true one.
double slack(double x);

double mean_log(const numbers& values);

/// The value below which the share `p` of the values lies.
/// @pre values are sorted, and there is one
double quantile(const numbers& sorted, double p);

/// A number as it stands in `--compute-time`.
std::string value_text(double x);

} // namespace troupe::app
