#pragma once
// A floating point number that CAF messages carry bit by bit, for every
// `double` in a message: CAF's own serialisation of floats corrupts subnormal
// numbers. A plain value.

#include <bit>
#include <cstdint>

namespace troupe {

struct real {
  double value = 0;

  real() = default;

  real(double x) : value(x) { // NOLINT: a real is a double
    // nop
  }

  operator double() const { return value; }
};

/// Equality of bits: a NaN equals itself, 0 differs from -0.
inline bool same_bits(real x, real y) {
  return std::bit_cast<uint64_t>(x.value) == std::bit_cast<uint64_t>(y.value);
}

template <class Inspector>
bool inspect(Inspector& f, real& x) {
  if (f.has_human_readable_format())
    return f.apply(x.value);
  auto get = [&x] {
    return std::bit_cast<uint64_t>(x.value);
  };
  auto set = [&x](uint64_t bits) {
    x.value = std::bit_cast<double>(bits);
    return true;
  };
  return f.apply(get, set);
}

} // namespace troupe
