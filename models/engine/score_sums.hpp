#pragma once
// What the batches of an evaluation add up to. Internal to the engine; not
// thread-safe.

#include "models/engine/compute.hpp"

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <optional>
#include <vector>

namespace troupe::models {

class score_sums {
public:
  /// @param found Of a batch: the sum of its losses, how many answers are
  /// right, and, if wanted, how many are among the five highest scores.
  void add(const std::vector<double>& found, const at::Tensor& targets) {
    loss_ += found[0];
    correct_ += found[1];
    if (found.size() > 2)
      among_five_ = among_five_.value_or(0) + found[2];
    samples_ += static_cast<uint64_t>(targets.numel());
  }

  evaluation_result mean() const {
    evaluation_result out;
    out.samples = samples_;
    if (samples_ == 0)
      return out;
    auto n = static_cast<double>(samples_);
    out.loss = loss_ / n;
    out.accuracy = correct_ / n;
    if (among_five_)
      out.accuracy_top5 = *among_five_ / n;
    return out;
  }

private:
  double loss_ = 0;
  double correct_ = 0;
  std::optional<double> among_five_;
  uint64_t samples_ = 0;
};

} // namespace troupe::models
