#pragma once
// How the tensors of a run travel: compressed or not, over GPUs or not. Free
// functions, called by main when the process starts.

#include "actors/links/compressing_link.hpp"
#include "apps/trainer_node/origin.hpp"
#include "messages/transport/compression/compression.hpp"
#include "messages/transport/nccl/collective_coordinator.hpp"
#include "models/layout/flat_layout.hpp"

namespace troupe::app {

/// The number of running statistics, which are stored behind the last
/// parameter.
uint64_t statistics_of(const models::flat_layout& layout);

/// How gradients are compressed for a server with these weights; null: not
/// compressed.
transport::codec_ptr codec_of(const config::settings& settings,
                              const payload_shape& weights,
                              const models::flat_layout& layout);

/// The same for the workers of this process.
compression compression_of(const config::settings& settings, const origin& from,
                           const models::flat_layout& layout);

/// NCCL, if it is wanted, and the group in which the gradients of a whole
/// cluster are added up.
struct gpu_paths {
  transport::nccl::library_ptr nccl;
  transport::collective_coordinator_ptr collective;
};

/// Throws `run_error` when NCCL is wanted and cannot be used.
gpu_paths find_gpus(const config::settings& settings,
                    const models::flat_layout& layout, const speech& say);

} // namespace troupe::app
