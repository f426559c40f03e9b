#pragma once
// Loops over tensor memory, most of them of a parameter server, compiled once
// for each useful instruction set. All versions give the same bits: each
// element is computed by itself, in the order written down here, and no
// multiplication is fused with an addition. Called by models/optim and
// models/dropout.
//
// Nothing is checked; sizes and pointers are the caller's responsibility.
// Arrays do not overlap, except that `next` may be `current`. Stateless; any
// thread.

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
  bool first = false; ///< The buffer starts as a copy of the gradient.
  T ahead = 0;        ///< With Nesterov: of the buffer; usually the momentum.
};

/// torch.optim.Adam and AdamW. Kingma and Ba, "Adam", ICLR 2015, algorithm 1,
/// with the bias corrections moved into the factors of step t.
template <class T>
struct adam_terms {
  T beta1 = 0;
  T beta2 = 0;
  T epsilon = 0;
  T weight_decay = 0; ///< Added to the gradient.
  T shrink = 1;       ///< Scales the weights before the step (AdamW).
  T step_size = 0;    ///< lr / (1 - beta1^t)
  T root_scale = 1;   ///< sqrt(1 - beta2^t)
};

/// torch.optim.Adagrad without decay of the rate.
template <class T>
struct adagrad_terms {
  T lr = 0;
  T epsilon = 0;
  T weight_decay = 0; ///< Added to the gradient.
};

/// You et al., "Large batch optimization for deep learning: training BERT in 76
/// minutes", ICLR 2020, algorithm 2. Its step before the learning rate is that
/// of Adam plus the decay of the weights; the step of each parameter then has a
/// factor of its own.
template <class T>
struct lamb_terms {
  T beta1 = 0;
  T beta2 = 0;
  T epsilon = 0;
  T weight_decay = 0;
  T average_scale = 1; ///< 1 / (1 - beta1^t)
  T root_scale = 1;    ///< sqrt(1 - beta2^t)
};

/// A stream of 32-bit numbers, four for each of its blocks, and which of them
/// stay: Philox4x32-10 (Salmon et al., "Parallel random numbers: as easy as 1,
/// 2, 3", SC 2011), numbered as LibTorch's engine does.
template <class T>
struct dropout_terms {
  uint64_t seed = 0;
  uint64_t subsequence = 0;
  uint64_t block = 0;  ///< The first. The last is below 2^64, too.
  uint32_t lowest = 0; ///< Of the numbers that stay.
  T scale = 1;
};

template <class T>
struct loops {
  /// Whether all numbers are finite.
  bool (*finite)(const T* x, size_t count);

  /// out[i] = factors[0] * in[0][i] + factors[1] * in[1][i] + ..., n of them,
  /// left to right. @pre n > 0
  void (*sum)(T* out, const T* const* in, const T* factors, size_t n,
              size_t count);

  /// The sum of x[i] * x[i], in double: eight sums, each of every eighth
  /// element, which are then added from left to right.
  double (*squares)(const T* x, size_t count);

  /// @param buffer The momentum; null if there is none.
  void (*sgd)(const sgd_terms<T>& terms, T* next, const T* current,
              const T* gradient, T* buffer, size_t count);

  void (*adam)(const adam_terms<T>& terms, T* next, const T* current,
               const T* gradient, T* average, T* square, size_t count);

  void (*adagrad)(const adagrad_terms<T>& terms, T* next, const T* current,
                  const T* gradient, T* sum, size_t count);

  /// Updates the averages, and writes the step of `lamb` with a rate of 1.
  void (*lamb_step)(const lamb_terms<T>& terms, T* step, const T* current,
                    const T* gradient, T* average, T* square, size_t count);

  /// @param rate The learning rate times the parameter's factor.
  void (*lamb)(const lamb_terms<T>& terms, T rate, T* next, const T* current,
               const T* average, const T* square, size_t count);

  /// average[i] += share * (x[i] - average[i])
  void (*blend)(T share, T* average, const T* x, size_t count);

  /// out[i] = scale where the i-th number of the stream stays, else 0.
  void (*dropout)(const dropout_terms<T>& terms, T* out, size_t count);

  /// Copies with streaming stores, which bypass the caches, so that memory that
  /// is overwritten completely need not be read first. Other threads see it
  /// after `end_of_streams`. @pre `to` is aligned to `stream_alignment`
  void (*stream)(T* to, const T* from, size_t count);
};

inline constexpr size_t stream_alignment = 64;

/// Orders what `stream` wrote before all later writes.
void end_of_streams();

/// An instruction set that this program has loops for.
struct variant {
  std::string_view name; ///< baseline | avx2 | avx512
  bool usable = false;   ///< Whether this CPU has it.
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
