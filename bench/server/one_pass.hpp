#pragma once
// A parameter server's step as one would write it by hand: the reference for
// the benchmark. Pure functions.

#include <cstddef>

namespace troupe::bench {

/// Adds `n` gradients, divides by n, and makes a step of SGD with momentum on
/// `weights`, in place, in blocks of 256 KiB.
void one_pass_sgd(float* weights, float* momentum_buffer,
                  const float* const* gradients, size_t n, size_t count,
                  float lr, float momentum);

/// Whether every number is finite. Reads all of them.
bool one_pass_finite(const float* x, size_t count);

} // namespace troupe::bench
