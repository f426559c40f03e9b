#pragma once
// The order in which a stage of a pipeline takes the micro-batches of a batch,
// forward and backward. All stages have the same weights for the whole batch: a
// batch is flushed before the next one begins.
//
// Sources: GPipe (Huang et al., "GPipe: Efficient Training of Giant Neural
// Networks using Pipeline Parallelism", 2019, section 2.3); 1F1B with a flush
// (Narayanan et al., "Efficient Large-Scale Language Model Training on GPU
// Clusters Using Megatron-LM", 2021, section 2.2.1).
//
// Pure; any thread.

#include "config/text/settings.hpp"

#include <cstdint>
#include <vector>

namespace troupe::cores {

enum class pass_kind : uint8_t { forward, backward };

/// One pass of a micro-batch through a stage.
struct pipeline_pass {
  pass_kind what = pass_kind::forward;
  uint32_t micro_batch = 0;

  bool operator==(const pipeline_pass&) const = default;
};

/// The passes of this stage, of `stages`, in their order. Both directions take
/// the micro-batches in ascending order.
/// @pre stage < stages, micro_batches > 0
std::vector<pipeline_pass> passes_of(config::pipeline_order rule,
                                     uint32_t stage, uint32_t stages,
                                     uint32_t micro_batches);

} // namespace troupe::cores
