#pragma once
// Forward on weights that are still arriving: each layer waits for its own.

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <optional>

namespace troupe::models {

/// Waits until these bytes of the weights, from the first to before the last,
/// are there; false if they will not come.
using weights_wait = std::function<bool(uint64_t first, uint64_t last)>;

/// While it lives, an operator that this thread calls waits until those of its
/// inputs that lie in the flat weights are there: any network's, a script's
/// too. If they will not come it goes on with what there is. One at a time in a
/// thread.
class waits_for_weights {
public:
  /// @param wait For parts of `weights`; null: nobody waits.
  waits_for_weights(const weights_wait* wait, const at::Tensor& weights);

  ~waits_for_weights();

  waits_for_weights(const waits_for_weights&) = delete;
  waits_for_weights& operator=(const waits_for_weights&) = delete;

private:
  std::optional<uint64_t> observer_; ///< LibTorch's number of it.
};

} // namespace troupe::models
