#pragma once
// The resources of a process: threads, memory, GPUs, a terminal, the time of
// day. Free functions, called by main when the process starts.

#include "config/text/settings.hpp"
#include "messages/payload.hpp"
#include "messages/transport/nccl/gpu_exchange.hpp"
#include "messages/transport/shm/shared_memory.hpp"
#include "models/optim/lanes.hpp"

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

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

/// A port of this host that is free at the moment. Throws `run_error`.
uint16_t find_free_port(const std::string& host);

/// Memory that others on this host may read, if the settings allow shared
/// memory for tensors; else null. Pinned where this process computes on a GPU.
std::shared_ptr<transport::shared_memory>
shared_memory_for(const config::settings& settings);

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

/// Where the replicas of a worker compute, in turn: on the device of these
/// settings, after choose_device, and on one more GPU for each, as long as some
/// are free, if this process has chosen its GPU by itself. It takes them until
/// it ends.
std::vector<std::string> devices_of_replicas(const config::settings& settings);

/// Whether this process computes the parts that are with this owner: the shard
/// of a rank, or the worker.
bool computes_parts_of(const std::optional<uint32_t>& server,
                       const config::settings& settings);

/// Sends tensors from this process's GPU to others'; null where the settings
/// want no such path or the process computes on the CPU. To be called after
/// choose_device. Throws `run_error`, with the reason, where `--transport nccl`
/// cannot be had.
/// @param say Told why `--transport auto` has to do without.
transport::gpu_network_ptr
gpu_network_for(const config::settings& settings,
                const std::function<void(const std::string&)>& say);

/// Where shard and worker of this peer meet, if all nodes add up their
/// gradients over NCCL: in synchronous runs whose nodes have GPUs. Else null;
/// then gpu_network_for is to be asked.
transport::gpu_exchange_ptr
gpu_exchange_for(const config::settings& settings,
                 const std::function<void(const std::string&)>& say);

/// Columns of the terminal on stdout; 0 when stdout is not a terminal.
size_t terminal_width();

} // namespace troupe::app
