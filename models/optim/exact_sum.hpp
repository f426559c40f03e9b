#pragma once
// A sum of floating-point numbers without rounding errors: whatever is added,
// in whatever order and however it is divided among shards, it has the same
// value. From J. R. Shewchuk, "Adaptive Precision Floating-Point Arithmetic and
// Fast Robust Geometric Predicates" (1997), section 2.4.
//
// A value type; not thread-safe.

#include <span>
#include <vector>

namespace troupe::models {

class exact_sum {
public:
  /// Adds a number. If it is infinite or NaN, so is the sum from then on.
  void add(double x);

  /// The same for several, such as the parts of another sum.
  void add(std::span<const double> numbers) {
    for (auto x : numbers)
      add(x);
  }

  /// The double that is nearest to the sum.
  double value() const;

  /// A few numbers, rising in magnitude, whose sum this is.
  const std::vector<double>& parts() const { return parts_; }

private:
  std::vector<double> parts_;
};

} // namespace troupe::models
