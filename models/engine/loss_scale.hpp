#pragma once
// The number that a loss is multiplied by before backward, when forward
// computes in half precision: small gradients would become 0 there. It follows
// the gradients as that of torch.amp.GradScaler does. A gradient that is not
// finite is a decision and no fault: the batch is computed again with half the
// scale.
//
// A value of an engine; not thread-safe.

#include "config/text/settings.hpp"

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

namespace troupe::models {

class loss_scale {
public:
  static constexpr double first = 65536;
  /// An overflow without any scale is one of the network's own.
  static constexpr double least = 1;
  /// After so many batches in a row without an overflow the scale doubles.
  static constexpr uint32_t patience = 2000;

  double value() const noexcept { return value_; }

  /// A batch has given a finite gradient.
  void succeed() noexcept;

  /// A batch has not, and is to be computed again.
  /// @throws run_error if the scale cannot become smaller.
  void overflow();

private:
  double value_ = first;
  uint32_t good_ = 0; ///< Batches since the last change.
};

/// Takes a scale out of gradients on a device, behind what its current stream
/// has been given. Returns a number of the device: not 0 if something is
/// infinite or NaN.
at::Tensor unscale(const std::vector<at::Tensor>& gradients, double scale);

/// @throws run_error unless half precision has the GPU that it needs.
void require_gpu_for_fp16(const config::training_settings& settings);

} // namespace troupe::models
