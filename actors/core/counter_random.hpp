#pragma once
// Reproducible random numbers without hidden state, for jitter.
//
// A value; pure. Not thread-safe when one object is shared.

#include <cstdint>

namespace troupe::cores {

/// Random numbers as a function of (seed, counter): SplitMix64 (Steele et al.
/// 2014). Two objects with the same members give the same numbers. Good for
/// jitter, not for secrets or statistics.
struct counter_random {
  uint64_t seed = 0;
  uint64_t counter = 0;

  constexpr uint64_t next() {
    uint64_t x = seed + ++counter * 0x9e3779b97f4a7c15u;
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
    return x ^ (x >> 31);
  }

  /// Uniform in [0, 1).
  constexpr double uniform() {
    return static_cast<double>(next() >> 11) * 0x1p-53;
  }
};

} // namespace troupe::cores
