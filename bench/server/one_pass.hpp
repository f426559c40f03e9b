#pragma once
// What one would write by hand for a parameter server's step: the reference.

#include <cstddef>

namespace troupe::bench {

/// Adds `n` gradients, divides by n, and makes a step of SGD with momentum on
/// `weights`, in place, in blocks of 256 KiB.
void one_pass_sgd(float* weights, float* momentum_buffer,
                  const float* const* gradients, size_t n, size_t count,
                  float lr, float momentum);

/// Is every number finite? Reads all of them.
bool one_pass_finite(const float* x, size_t count);

} // namespace troupe::bench
