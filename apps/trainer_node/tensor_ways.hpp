#pragma once
// How tensors travel that a run has: compressed or not, over GPUs or not.

#include "actors/links/compressing_link.hpp"
#include "apps/trainer_node/origin.hpp"
#include "messages/transport/compression/compression.hpp"
#include "messages/transport/nccl/collective_coordinator.hpp"
#include "models/layout/flat_layout.hpp"

namespace troupe::app {

/// Running statistics, which lie behind the last parameter.
uint64_t statistics_of(const models::flat_layout& layout);

/// How gradients are compressed for a server of these weights; null: not at
/// all.
transport::codec_ptr codec_of(const config::settings& settings,
                              const payload_shape& weights,
                              const models::flat_layout& layout);

/// The same for the workers of this process.
compression compression_of(const config::settings& settings, const origin& from,
                           const models::flat_layout& layout);

/// NCCL, if it is wanted, and where the gradients of a whole cluster are added
/// up.
struct gpu_paths {
  transport::nccl::library_ptr nccl;
  transport::collective_coordinator_ptr collective;
};

/// Throws `run_error` when NCCL is wanted and cannot be used.
gpu_paths find_gpus(const config::settings& settings,
                    const models::flat_layout& layout, const speech& say);

} // namespace troupe::app
