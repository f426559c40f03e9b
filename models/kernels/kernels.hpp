#pragma once
// The loops of a parameter server over tensor memory, compiled once for each
// instruction set that is worth it. All of them give the same bits: each
// element is computed by itself, in the order that is written down here, and no
// multiplication is fused with an addition.
//
// No checks; sizes and pointers are the caller's business. Arrays do not
// overlap, but that `next` may be `current`. Any thread.

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

namespace troupe::models::kernels {

/// torch.optim.SGD without dampening.
template <class T>
struct sgd_terms {
  T lr = 0;
  T momentum = 0; ///< 0: there is no buffer.
  T weight_decay = 0;
  bool nesterov = false;
  bool first = false; ///< The buffer begins as the gradient.
};

/// torch.optim.Adam and AdamW. Kingma and Ba, "Adam", ICLR 2015, algorithm 1,
/// with the corrections of the bias moved into the factors of step t.
template <class T>
struct adam_terms {
  T beta1 = 0;
  T beta2 = 0;
  T epsilon = 0;
  T weight_decay = 0; ///< Added to the gradient.
  T shrink = 1;       ///< Of the weights, before the step (AdamW).
  T step_size = 0;    ///< lr / (1 - beta1^t)
  T root_scale = 1;   ///< sqrt(1 - beta2^t)
};

template <class T>
struct loops {
  /// Is there neither NaN nor infinity?
  bool (*finite)(const T* x, size_t count);

  /// out[i] = factors[0] * in[0][i] + factors[1] * in[1][i] + ..., n of them,
  /// left to right. @pre n > 0
  void (*sum)(T* out, const T* const* in, const T* factors, size_t n,
              size_t count);

  /// The sum of x[i] * x[i], in double: eight sums of every eighth element,
  /// then those from left to right.
  double (*squares)(const T* x, size_t count);

  /// @param buffer The momentum; null if there is none.
  void (*sgd)(const sgd_terms<T>& terms, T* next, const T* current,
              const T* gradient, T* buffer, size_t count);

  void (*adam)(const adam_terms<T>& terms, T* next, const T* current,
               const T* gradient, T* average, T* square, size_t count);

  /// Copies to memory, not into the caches, so that memory which is written
  /// whole need not be read first. Other threads see it after
  /// `end_of_streams`. @pre `to` is aligned to `stream_alignment`
  void (*stream)(T* to, const T* from, size_t count);
};

inline constexpr size_t stream_alignment = 64;

/// What `stream` wrote comes before what is written from here on.
void end_of_streams();

/// An instruction set that this program has loops for.
struct variant {
  std::string_view name; ///< baseline | avx2 | avx512
  bool usable = false;   ///< Does this CPU have it?
  const loops<float>* f32 = nullptr;
  const loops<double>* f64 = nullptr;
};

/// The slowest first.
const std::vector<variant>& variants();

/// The fastest that this CPU has.
template <class T>
const loops<T>& fastest();

template <>
const loops<float>& fastest<float>();

template <>
const loops<double>& fastest<double>();

} // namespace troupe::models::kernels
