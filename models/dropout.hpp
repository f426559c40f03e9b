#pragma once
// Dropout whose masks are a function of a key, not of a generator that threads
// share or that keeps running: a gradient that is computed again, by any
// worker, after a restart or in a replay, is the same gradient. Stateless; any
// thread.

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <optional>

namespace troupe::models {

/// What the masks of one batch depend on: the run's seed and the batch's
/// position in the data (epoch, and first position in the order of that epoch).
struct dropout_key {
  uint64_t seed = 0;
  uint64_t epoch = 0;
  uint64_t first = 0;
};

/// Sets elements to zero with probability `share` and scales the others by 1 /
/// (1 - share). Philox 4x32-10: element i of the logical order takes word i of
/// the stream of (seed, epoch, first, layer).
/// @param layer Number of the dropout layer in its network: 0, 1, ...
/// @param key None: returns `x` itself, as in evaluation.
/// @pre 0 <= share < 1; `first` and `epoch` fit into 32 bits.
at::Tensor dropout(const at::Tensor& x, double share, uint32_t layer,
                   const std::optional<dropout_key>& key);

} // namespace troupe::models
