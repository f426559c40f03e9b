// Compiled for all instruction sets of this machine.

#include "bench/server/one_pass.hpp"

namespace troupe::bench {

namespace {

/// Adds up to four gradients, read side by side.
template <size_t N>
void add(float* __restrict sum, const float* const* gradients, size_t first,
         size_t count, bool fresh) {
  const float* in[N];
  for (size_t k = 0; k < N; ++k)
    in[k] = gradients[k] + first;
  for (size_t i = 0; i < count; ++i) {
    float x = fresh ? 0 : sum[i];
    for (size_t k = 0; k < N; ++k)
      x += in[k][i];
    sum[i] = x;
  }
}

void add_some(float* sum, const float* const* gradients, size_t n, size_t first,
              size_t count, bool fresh) {
  switch (n) {
  case 1:
    return add<1>(sum, gradients, first, count, fresh);
  case 2:
    return add<2>(sum, gradients, first, count, fresh);
  case 3:
    return add<3>(sum, gradients, first, count, fresh);
  default:
    return add<4>(sum, gradients, first, count, fresh);
  }
}

} // namespace

void one_pass_sgd(float* weights, float* momentum_buffer,
                  const float* const* gradients, size_t n, size_t count,
                  float lr, float momentum) {
  constexpr size_t block = 256 * 1024 / sizeof(float);
  alignas(64) static thread_local float sum[block];
  auto scale = 1.0f / static_cast<float>(n);
  for (size_t first = 0; first < count; first += block) {
    auto size = count - first < block ? count - first : block;
    for (size_t k = 0; k < n; k += 4)
      add_some(sum, gradients + k, n - k, first, size, k == 0);
    auto* __restrict w = weights + first;
    auto* __restrict m = momentum_buffer + first;
    for (size_t i = 0; i < size; ++i) {
      m[i] = momentum * m[i] + scale * sum[i];
      w[i] -= lr * m[i];
    }
  }
}

bool one_pass_finite(const float* x, size_t count) {
  unsigned bad = 0;
  for (size_t i = 0; i < count; ++i)
    bad |= (__builtin_bit_cast(unsigned, x[i]) & 0x7f800000u) == 0x7f800000u;
  return bad == 0;
}

} // namespace troupe::bench
