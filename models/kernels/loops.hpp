// No `#pragma once`: each file that includes this one compiles the loops for
// its own instruction set, in the namespace that TROUPE_INSTRUCTION_SET names.
// See kernels.hpp for their use.
//
// Only functions defined here may be called: an inline function of another
// header would be compiled for this instruction set, too, and the linker might
// use that copy in the whole program.

#include "models/kernels/kernels.hpp"

#ifdef TROUPE_X86_64
#include <immintrin.h> // Its functions are always inlined.
#endif

#ifndef TROUPE_INSTRUCTION_SET
#error "define TROUPE_INSTRUCTION_SET"
#endif

namespace troupe::models::kernels::TROUPE_INSTRUCTION_SET {

extern const loops<float> f32;
extern const loops<double> f64;

namespace {

// -- is every number finite? --------------------------------------------------

template <class T>
struct exponent;

template <>
struct exponent<float> {
  using bits = uint32_t;
  static constexpr bits mask = 0x7f80'0000;
};

template <>
struct exponent<double> {
  using bits = uint64_t;
  static constexpr bits mask = 0x7ff0'0000'0000'0000;
};

/// Not 0 if any is NaN or infinity: then all bits of its exponent are set.
/// Without branches, so that the compiler vectorises it.
template <class T>
typename exponent<T>::bits bad_among(const T* x, size_t count) {
  using bits = typename exponent<T>::bits;
  constexpr bits mask = exponent<T>::mask;
  bits bad = 0;
  for (size_t i = 0; i < count; ++i)
    bad |= static_cast<bits>((__builtin_bit_cast(bits, x[i]) & mask) == mask);
  return bad;
}

/// In blocks, so that it stops soon after the first such number.
template <class T>
bool finite(const T* x, size_t count) {
  constexpr size_t block = 64 * 1024 / sizeof(T);
  for (; count > block; x += block, count -= block)
    if (bad_among(x, block) != 0)
      return false;
  return bad_among(x, count) == 0;
}

// -- sums ---------------------------------------------------------------------

/// out = or += factors * in, reading N arrays at the same time.
template <bool First, size_t N, class T>
void add_group(T* __restrict out, const T* const* in, const T* factors,
               size_t count) {
  const T* from[N];
  T factor[N];
  for (size_t k = 0; k < N; ++k) {
    from[k] = in[k];
    factor[k] = factors[k];
  }
  for (size_t i = 0; i < count; ++i) {
    T sum = First ? factor[0] * from[0][i] : out[i] + factor[0] * from[0][i];
    for (size_t k = 1; k < N; ++k)
      sum += factor[k] * from[k][i];
    out[i] = sum;
  }
}

template <bool First, class T>
void add_some(T* out, const T* const* in, const T* factors, size_t n,
              size_t count) {
  switch (n) {
  case 1:
    return add_group<First, 1>(out, in, factors, count);
  case 2:
    return add_group<First, 2>(out, in, factors, count);
  case 3:
    return add_group<First, 3>(out, in, factors, count);
  default:
    return add_group<First, 4>(out, in, factors, count);
  }
}

/// Measured: reading four arrays at a time takes half the time of one after
/// another; more are no faster.
template <class T>
void sum(T* out, const T* const* in, const T* factors, size_t n, size_t count) {
  constexpr size_t group = 4;
  add_some<true>(out, in, factors, n < group ? n : group, count);
  for (size_t k = group; k < n; k += group)
    add_some<false>(out, in + k, factors + k, n - k < group ? n - k : group,
                    count);
}

/// A fixed number of parallel sums, so that all instruction sets add in the
/// same order.
template <class T>
double squares(const T* x, size_t count) {
  constexpr size_t lanes = 8;
  double sums[lanes] = {};
  size_t i = 0;
  for (; i + lanes <= count; i += lanes)
    for (size_t k = 0; k < lanes; ++k) {
      auto value = static_cast<double>(x[i + k]);
      sums[k] += value * value;
    }
  for (size_t k = 0; i < count; ++i, ++k) {
    auto value = static_cast<double>(x[i]);
    sums[k] += value * value;
  }
  double out = 0;
  for (auto sum : sums)
    out += sum;
  return out;
}

// -- optimisers ---------------------------------------------------------------

template <bool Decay, class T>
void plain_sgd(const sgd_terms<T>& terms, T* next, const T* current,
               const T* __restrict gradient, size_t count) {
  auto [lr, momentum, decay, nesterov, first, ahead] = terms;
  for (size_t i = 0; i < count; ++i) {
    auto g = Decay ? gradient[i] + decay * current[i] : gradient[i];
    next[i] = current[i] - lr * g;
  }
}

template <bool Decay, bool Nesterov, bool First, class T>
void momentum_sgd(const sgd_terms<T>& terms, T* next, const T* current,
                  const T* __restrict gradient, T* __restrict buffer,
                  size_t count) {
  auto [lr, momentum, decay, nesterov, first, ahead] = terms;
  for (size_t i = 0; i < count; ++i) {
    auto g = Decay ? gradient[i] + decay * current[i] : gradient[i];
    auto b = First ? g : momentum * buffer[i] + g;
    buffer[i] = b;
    next[i] = current[i] - lr * (Nesterov ? g + ahead * b : b);
  }
}

template <bool Decay, bool Nesterov, class T>
void momentum_sgd(const sgd_terms<T>& terms, T* next, const T* current,
                  const T* gradient, T* buffer, size_t count) {
  if (terms.first)
    momentum_sgd<Decay, Nesterov, true>(terms, next, current, gradient, buffer,
                                        count);
  else
    momentum_sgd<Decay, Nesterov, false>(terms, next, current, gradient, buffer,
                                         count);
}

template <bool Decay, class T>
void sgd(const sgd_terms<T>& terms, T* next, const T* current,
         const T* gradient, T* buffer, size_t count) {
  if (buffer == nullptr)
    plain_sgd<Decay>(terms, next, current, gradient, count);
  else if (terms.nesterov)
    momentum_sgd<Decay, true>(terms, next, current, gradient, buffer, count);
  else
    momentum_sgd<Decay, false>(terms, next, current, gradient, buffer, count);
}

template <class T>
void sgd(const sgd_terms<T>& terms, T* next, const T* current,
         const T* gradient, T* buffer, size_t count) {
  if (terms.weight_decay != 0)
    sgd<true>(terms, next, current, gradient, buffer, count);
  else
    sgd<false>(terms, next, current, gradient, buffer, count);
}

inline float root(float x) {
  return __builtin_sqrtf(x);
}

inline double root(double x) {
  return __builtin_sqrt(x);
}

template <class T>
void adam(const adam_terms<T>& terms, T* next, const T* current,
          const T* __restrict gradient, T* __restrict average,
          T* __restrict square, size_t count) {
  auto [beta1, beta2, epsilon, decay, shrink, step_size, root_scale] = terms;
  for (size_t i = 0; i < count; ++i) {
    auto w = current[i] * shrink;
    auto g = gradient[i] + decay * current[i];
    auto a = average[i] + (g - average[i]) * (1 - beta1);
    auto s = square[i] * beta2 + (1 - beta2) * g * g;
    average[i] = a;
    square[i] = s;
    next[i] = w - step_size * a / (root(s) / root_scale + epsilon);
  }
}

template <class T>
void adagrad(const adagrad_terms<T>& terms, T* next, const T* current,
             const T* __restrict gradient, T* __restrict sum, size_t count) {
  auto [lr, epsilon, decay] = terms;
  for (size_t i = 0; i < count; ++i) {
    auto g = gradient[i] + decay * current[i];
    auto s = sum[i] + g * g;
    sum[i] = s;
    next[i] = current[i] - lr * g / (root(s) + epsilon);
  }
}

template <class T>
inline T lamb_step_of(const lamb_terms<T>& terms, T weight, T average,
                      T square) {
  return average * terms.average_scale /
           (root(square) / terms.root_scale + terms.epsilon) +
         terms.weight_decay * weight;
}

template <class T>
void lamb_step(const lamb_terms<T>& terms, T* __restrict step, const T* current,
               const T* __restrict gradient, T* __restrict average,
               T* __restrict square, size_t count) {
  auto its = terms;
  for (size_t i = 0; i < count; ++i) {
    auto g = gradient[i];
    auto a = average[i] + (g - average[i]) * (1 - its.beta1);
    auto s = square[i] * its.beta2 + (1 - its.beta2) * g * g;
    average[i] = a;
    square[i] = s;
    step[i] = lamb_step_of(its, current[i], a, s);
  }
}

template <class T>
void lamb(const lamb_terms<T>& terms, T rate, T* next, const T* current,
          const T* __restrict average, const T* __restrict square,
          size_t count) {
  auto its = terms;
  for (size_t i = 0; i < count; ++i)
    next[i] =
      current[i] - rate * lamb_step_of(its, current[i], average[i], square[i]);
}

template <class T>
void blend(T share, T* __restrict average, const T* __restrict x,
           size_t count) {
  for (size_t i = 0; i < count; ++i)
    average[i] += share * (x[i] - average[i]);
}

// -- dropout ------------------------------------------------------------------

/// So many blocks of random numbers at a time: word k of block i is [k][i].
constexpr size_t blocks_at_a_time = 64;
using random_blocks = uint32_t[4][blocks_at_a_time];

/// Makes counters into random numbers, in ten rounds.
inline void philox(random_blocks& x, uint32_t key0, uint32_t key1) {
  for (int round = 0; round < 10; ++round) {
    for (size_t i = 0; i < blocks_at_a_time; ++i) {
      auto a = uint64_t{0xd2511f53} * x[0][i];
      auto b = uint64_t{0xcd9e8d57} * x[2][i];
      x[0][i] = static_cast<uint32_t>(b >> 32) ^ x[1][i] ^ key0;
      x[2][i] = static_cast<uint32_t>(a >> 32) ^ x[3][i] ^ key1;
      x[1][i] = static_cast<uint32_t>(b);
      x[3][i] = static_cast<uint32_t>(a);
    }
    key0 += 0x9e3779b9;
    key1 += 0xbb67ae85;
  }
}

template <class T>
void dropout(const dropout_terms<T>& terms, T* out, size_t count) {
  constexpr size_t step = 4 * blocks_at_a_time;
  T kept[4][blocks_at_a_time];
  T some[step];
  auto scale = terms.scale;
  auto block = terms.block;
  while (count > 0) {
    random_blocks x;
    for (size_t i = 0; i < blocks_at_a_time; ++i, ++block) {
      x[0][i] = static_cast<uint32_t>(block);
      x[1][i] = static_cast<uint32_t>(block >> 32);
      x[2][i] = static_cast<uint32_t>(terms.subsequence);
      x[3][i] = static_cast<uint32_t>(terms.subsequence >> 32);
    }
    philox(x, static_cast<uint32_t>(terms.seed),
           static_cast<uint32_t>(terms.seed >> 32));
    for (size_t k = 0; k < 4; ++k)
      for (size_t i = 0; i < blocks_at_a_time; ++i)
        kept[k][i] = x[k][i] >= terms.lowest ? scale : T{0};
    for (size_t i = 0; i < blocks_at_a_time; ++i) {
      some[4 * i] = kept[0][i];
      some[4 * i + 1] = kept[1][i];
      some[4 * i + 2] = kept[2][i];
      some[4 * i + 3] = kept[3][i];
    }
    auto n = count < step ? count : step;
    __builtin_memcpy(out, some, n * sizeof(T));
    if (n < step)
      return;
    out += step;
    count -= step;
  }
}

// -- memory -------------------------------------------------------------------

#ifdef __AVX512F__

constexpr size_t stream_bytes = 64;

inline void stream_one(char* to, const char* from) {
  _mm512_stream_si512(reinterpret_cast<__m512i*>(to), _mm512_loadu_si512(from));
}

#elif defined(__AVX2__)

constexpr size_t stream_bytes = 32;

inline void stream_one(char* to, const char* from) {
  _mm256_stream_si256(
    reinterpret_cast<__m256i*>(to),
    _mm256_loadu_si256(reinterpret_cast<const __m256i*>(from)));
}

#elif defined(TROUPE_X86_64)

constexpr size_t stream_bytes = 16;

inline void stream_one(char* to, const char* from) {
  _mm_stream_si128(reinterpret_cast<__m128i*>(to),
                   _mm_loadu_si128(reinterpret_cast<const __m128i*>(from)));
}

#else

constexpr size_t stream_bytes = 16;

inline void stream_one(char* to, const char* from) {
  __builtin_memcpy(to, from, stream_bytes);
}

#endif

template <class T>
void stream(T* to, const T* from, size_t count) {
  constexpr size_t step = stream_bytes / sizeof(T);
  size_t i = 0;
  for (; i + step <= count; i += step)
    stream_one(reinterpret_cast<char*>(to + i),
               reinterpret_cast<const char*>(from + i));
  for (; i < count; ++i)
    to[i] = from[i];
}

} // namespace

const loops<float> f32{finite<float>,    sum<float>,   squares<float>,
                       sgd<float>,       adam<float>,  adagrad<float>,
                       lamb_step<float>, lamb<float>,  blend<float>,
                       dropout<float>,   stream<float>};
const loops<double> f64{finite<double>,    sum<double>,   squares<double>,
                        sgd<double>,       adam<double>,  adagrad<double>,
                        lamb_step<double>, lamb<double>,  blend<double>,
                        dropout<double>,   stream<double>};

} // namespace troupe::models::kernels::TROUPE_INSTRUCTION_SET
