#include "models/optim/exact_sum.hpp"

#include <cmath>
#include <cstddef>
#include <utility>

namespace troupe::models {

void exact_sum::add(double x) {
  size_t kept = 0;
  for (auto y : parts_) {
    if (std::abs(x) < std::abs(y))
      std::swap(x, y);
    auto high = x + y;
    auto low = y - (high - x); // What `high` has lost; exact, since |x| >= |y|.
    if (low != 0)
      parts_[kept++] = low;
    x = high;
  }
  parts_.resize(kept);
  if (!std::isfinite(x)) // Then the parts mean nothing.
    parts_.clear();
  if (x != 0)
    parts_.push_back(x);
}

double exact_sum::value() const {
  if (parts_.empty())
    return 0;
  auto i = parts_.size() - 1;
  auto out = parts_[i];
  double rest = 0;
  while (i > 0 && rest == 0) {
    auto x = out;
    auto y = parts_[--i];
    out = x + y;
    rest = y - (out - x);
  }
  // If the sum lies halfway between two doubles, the smaller parts decide.
  auto more = i > 0 && rest != 0 && (rest < 0) == (parts_[i - 1] < 0);
  if (more && rest * 2 == (out + rest * 2) - out)
    out += rest * 2;
  return out;
}

} // namespace troupe::models
