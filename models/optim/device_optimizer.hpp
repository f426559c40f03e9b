#pragma once
// Optimisers whose weights and slots lie on a GPU. They have the formulas of
// those on the CPU (models/kernels/kernels.hpp), in LibTorch's fused kernels
// where it has them, so that results are the same to rounding.

#include "models/optim/optimizer.hpp"

#include <c10/core/Device.h>

#include <memory>

namespace troupe::models {

/// The optimiser that the settings name, on their device. All that it is given
/// lies there, and it computes on the current stream.
/// @throws usage_error if it has no step on a device.
std::unique_ptr<optimizer>
make_device_optimizer(const config::training_settings& settings,
                      const flat_layout& layout, parameter_groups groups);

} // namespace troupe::models
