#pragma once
// The loss of a batch, or of one of its micro-batches, and what else depends on
// where in the data a batch lies. Free functions; any thread.

#include "messages/lease.hpp"
#include "models/dropout.hpp"

#include <ATen/core/Tensor.h>
#include <ATen/ops/cross_entropy_loss.h>
#include <ATen/ops/div.h>

#include <cstdint>

namespace troupe::models {

/// The share of these samples in the mean loss of a batch of `of` samples:
/// cross entropy of smoothed labels, as a scalar.
/// @param scores [n, classes] @param targets [n] int64
inline at::Tensor loss_of(const at::Tensor& scores, const at::Tensor& targets,
                          int64_t of, double smoothing) {
  auto whole = targets.numel() == of;
  auto loss = at::cross_entropy_loss(
    scores, targets, {}, whole ? at::Reduction::Mean : at::Reduction::Sum,
    /*ignore_index=*/-100, smoothing);
  return whole ? loss : at::div(loss, of);
}

/// Keys the dropout masks of a micro-batch that begins at this sample of the
/// lease. They depend on the position in the epoch, and on the part of the data
/// that the lease belongs to.
inline dropout_key dropout_of(uint64_t seed, const lease& from, int64_t first) {
  return {seed + from.part * 0x9e3779b97f4a7c15, from.epoch,
          from.first + static_cast<uint64_t>(first)};
}

} // namespace troupe::models
