#pragma once
// The resources of a process: threads, memory, GPUs, a terminal, the time of
// day. Free functions, called by main when the process starts.

#include "config/text/settings.hpp"
#include "messages/payload.hpp"
#include "messages/transport/nccl/collective_coordinator.hpp"
#include "messages/transport/nccl/library/library.hpp"
#include "messages/transport/shm/shared_memory.hpp"
#include "models/optim/lanes.hpp"

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>

namespace troupe::app {

/// Intra-op threads of each computing thread: as configured, or this process's
/// share of the cores (cores.hpp).
int threads_share(const config::settings& settings);

/// The threads that share the parameter server's passes over the weights
/// (cores.hpp).
models::lanes lanes_for(const config::settings& settings);

/// Makes this process keep the large blocks of its tensors, up to the limit of
/// the settings. To be called before the first tensor and the first thread.
void keep_tensor_memory(const config::settings& settings);

/// Why this process could not listen there, as the system says, and what to do;
/// nothing if it could.
std::optional<std::string> trouble_listening(const std::string& host,
                                             uint16_t port);

/// A port of this host that is free at the moment. Throws `run_error`.
uint16_t find_free_port(const std::string& host);

/// This machine's address on the way to a host. Throws `run_error` if the host
/// cannot be looked up.
std::string address_towards(const std::string& host);

/// Memory that others on this host may read, if the settings allow shared
/// memory for tensors; else null. Pinned where this process computes on a GPU.
std::shared_ptr<transport::shared_memory>
shared_memory_for(const config::settings& settings);

/// NCCL and the CUDA runtime, if the settings ask for that path; else null.
/// Throws `run_error` with the reason when they cannot be used, or when others
/// use the GPUs of this host.
transport::nccl::library_ptr nccl_for(const config::settings& settings);

/// Exchanges `cuda` and `auto` for the device that this process computes on,
/// and opens LibTorch's CUDA part if that is a GPU. To be called once, before
/// the first backward pass. Returns the device for people; empty if none was
/// asked for. Throws `run_error` when there is no such GPU.
std::string choose_device(config::settings& settings);

/// Opens LibTorch's CUDA part if `[placement]` names a GPU for a part that this
/// process computes, and takes that GPU. To be called after choose_device, when
/// the placement is known, and before the first backward pass. Throws
/// `run_error` when there is no such GPU.
void open_placed_devices(const config::settings& settings);

/// The device for a part of the network that is `named` so (placement.hpp), in
/// a process with these settings after choose_device: `cpu` or `cuda:N`. Throws
/// `run_error` when there is no such GPU.
std::string device_of_part(const std::string& named,
                           const config::settings& settings);

/// Whether this process computes the parts that are with this owner: the shard
/// of a rank, or the worker.
bool computes_parts_of(const std::optional<uint32_t>& server,
                       const config::settings& settings);

/// With NCCL: the group in which the workers of this server add up their
/// gradients. Null without.
transport::collective_coordinator_ptr
collective_for(transport::nccl::library_ptr library,
               const payload_shape& weights,
               const std::function<void(const std::string&)>& say);

/// Columns of the terminal on stdout; 0 when stdout is not a terminal.
size_t terminal_width();

/// Seconds since 1970.
double time_of_day();

} // namespace troupe::app
