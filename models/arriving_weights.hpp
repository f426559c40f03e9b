#pragma once
// Forward on weights that are still arriving: each layer waits for its own.

#include "messages/arrival.hpp"

#include <ATen/core/Tensor.h>
#include <ATen/record_function.h>

#include <cstddef>
#include <optional>

namespace troupe::models {

/// While it lives, an operator that this thread calls waits until those of its
/// inputs that lie in the flat weights are there: any network's, a script's
/// too. If they will not come it goes on with what there is. One at a time in a
/// thread.
class waits_for_weights {
public:
  /// @param progress Of `weights`; null, or whole: nobody waits.
  waits_for_weights(arrival* progress, const at::Tensor& weights);

  ~waits_for_weights();

  waits_for_weights(const waits_for_weights&) = delete;
  waits_for_weights& operator=(const waits_for_weights&) = delete;

private:
  std::optional<at::CallbackHandle> handle_;
};

} // namespace troupe::models
