#pragma once
// Lets forward begin while its weights are still arriving: each layer waits for
// its own weights. Created by the compute engine around a forward pass, on the
// computing thread.

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <optional>

namespace troupe::models {

/// Waits until the bytes [first, last) of the weights have arrived; false if
/// they never will.
using weights_wait = std::function<bool(uint64_t first, uint64_t last)>;

/// While it exists, every operator that this thread calls waits until those of
/// its inputs that lie in the flat weights have arrived. This works for any
/// network, including scripts. If they never arrive the operator runs on what
/// is there. At most one per thread at a time.
class waits_for_weights {
public:
  /// @param wait Waits for parts of `weights`; null: nothing waits.
  waits_for_weights(const weights_wait* wait, const at::Tensor& weights);

  ~waits_for_weights();

  waits_for_weights(const waits_for_weights&) = delete;
  waits_for_weights& operator=(const waits_for_weights&) = delete;

private:
  std::optional<uint64_t> observer_; ///< LibTorch's handle of the observer.
};

} // namespace troupe::models
