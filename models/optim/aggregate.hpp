#pragma once
// What a parameter server does with gradients before the optimiser's step.
// Plain functions over flat float32 or float64 CPU buffers; any thread.

#include "models/optim/lanes.hpp"

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

namespace troupe::models {

/// The mean of gradients, each weighted by its share (its number of samples,
/// times its weight if the policy gives it one), block by block, so that
/// whoever needs it finds it in the cache: the sum of n_i / n * g_i in the
/// given order. The order fixes the bits. The gradients must outlive it.
template <class T>
class blocked_mean {
public:
  /// Elements that a block may have: two of them fit into the nearest cache.
  /// Measured (0.4 and 11 million floats, 1 to 16 gradients): 4 to 256 KiB make
  /// no difference, but that what is streamed from a block prefers small ones.
  static constexpr size_t block = 8 * 1024 / sizeof(T);

  /// @throws run_error if there are no gradients, or no samples, or not as many
  /// of the one as of the other, or sizes or dtypes differ.
  blocked_mean(std::span<const at::Tensor> gradients,
               std::span<const double> shares);

  /// The mean of `count` elements from `first` on; valid until the next call.
  /// @pre count <= block
  const T* at(size_t first, size_t count);

private:
  std::vector<const T*> in_;
  std::vector<T> factors_;
  std::vector<const T*> here_;
  std::unique_ptr<T[]> out_;
};

extern template class blocked_mean<float>;
extern template class blocked_mean<double>;

/// Is there neither NaN nor infinity in `flat`? One read pass, in which each
/// thread stops within 64 KiB of the first such element that it meets.
bool all_finite(const at::Tensor& flat, const lanes& across = {});

} // namespace troupe::models
