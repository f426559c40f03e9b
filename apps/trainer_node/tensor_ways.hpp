#pragma once
// How the tensors of a run travel: compressed or not, added up over GPUs. Free
// functions, called by main when the process starts.

#include "actors/links/compressing_link.hpp"
#include "apps/trainer_node/origin.hpp"
#include "messages/transport/compression/compression.hpp"
#include "messages/transport/nccl/gpu_exchange.hpp"
#include "models/layout/flat_layout.hpp"
#include "models/layout/fragments.hpp"

namespace troupe::app {

/// The number of running statistics, which are stored behind the last
/// parameter.
uint64_t statistics_of(const models::flat_layout& layout);

/// Where the workers of this process save what they carry from one gradient to
/// the next.
worker_store store_of(const config::settings& settings, const origin& from);

/// How many elements of a range lie in each fragment; empty: there is only one.
std::vector<uint64_t> fragments_of(const config::settings& settings,
                                   const models::flat_layout& layout,
                                   const models::element_range& range);

/// How gradients are compressed for a server with these weights, the last ones;
/// null: not compressed.
transport::codec_ptr codec_of(const config::settings& settings,
                              const payload_shape& weights,
                              const models::flat_layout& layout);

/// The same for the workers of this process.
compression compression_of(const config::settings& settings, const origin& from,
                           const models::flat_layout& layout);

/// Has the exchange of this peer meet those of the others.
/// @param terms Names the group; the rest is filled in.
void open_exchange(transport::gpu_exchange& exchange,
                   transport::exchange_terms terms,
                   const config::settings& settings,
                   const models::flat_layout& layout, const speech& say);

} // namespace troupe::app
