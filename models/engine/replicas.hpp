#pragma once
// How replicas of a network share a batch, as those of PyTorch's DataParallel
// do. Free functions; thread-safe.

#include "messages/lease.hpp"
#include "models/layout/flat_layout.hpp"

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

namespace troupe::models {

/// The parts of a batch, in order, as torch.chunk cuts it: all have
/// samples / replicas, rounded up, but the last, which has what is left. So
/// there may be fewer parts than replicas; there is at least one.
std::vector<replica_part> cut_batch(uint64_t samples, uint32_t replicas);

/// Adds the gradient of the next part to the sum of those before. The running
/// statistics behind it stay those of the first replica.
void add_replica(const flat_layout& layout, const at::Tensor& sum,
                 const at::Tensor& gradient);

} // namespace troupe::models
