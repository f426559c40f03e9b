#pragma once
// What a process has: threads, a terminal, the time of day.

#include "config/text/settings.hpp"
#include "messages/payload.hpp"
#include "messages/transport/nccl/collective_coordinator.hpp"
#include "messages/transport/nccl/library.hpp"
#include "messages/transport/shm/shared_memory.hpp"
#include "models/optim/lanes.hpp"

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>

namespace troupe::app {

/// Intra-op threads of each computing thread: as configured, or this process's
/// share of the cores (cores.hpp).
int threads_share(const config::settings& settings);

/// The threads that share the parameter server's passes over the weights: as
/// many as the settings name shards, but no more than there are cores.
models::lanes lanes_for(const config::settings& settings);

/// Whether a socket of ours could listen there. A host that cannot be looked up
/// is left to whoever opens it.
bool can_listen(const std::string& host, uint16_t port);

/// Memory that others on this host may read, when the settings allow tensors to
/// go that way; null otherwise.
std::shared_ptr<transport::shared_memory>
shared_memory_for(const config::cluster_settings& cluster);

/// NCCL and the CUDA runtime, when the settings ask for that path; null
/// otherwise. Throws `run_error` with the reason when they cannot be used, or
/// others have the GPUs of this host.
transport::nccl::library_ptr nccl_for(const config::settings& settings);

/// With NCCL: where the workers of this server meet to add up their gradients
/// on the way. Null without.
transport::collective_coordinator_ptr
collective_for(transport::nccl::library_ptr library,
               const payload_shape& weights,
               const std::function<void(const std::string&)>& say);

/// Columns of the terminal on stdout, 0 when it is none.
size_t terminal_width();

/// s since 1970.
double time_of_day();

} // namespace troupe::app
