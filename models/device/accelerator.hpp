#pragma once
// GPUs of this process. LibTorch's CUDA part is a library of its own, which is
// opened when a device is asked for and never linked: one program serves all
// machines, and a run on the CPU needs nothing of it.
//
// Free functions; thread-safe.

#include "messages/payload_memory.hpp"

#include <c10/core/Device.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace troupe::models {

/// Opens LibTorch's CUDA part, once in a process: the library beside LibTorch's
/// others, or the one that TROUPE_CUDA_LIBRARY names. Must come before anybody
/// asks LibTorch whether there is CUDA, and before the first backward pass,
/// since it remembers the answers.
/// @returns how many GPUs there are, at least one.
/// @throws run_error, with the reason, if no GPU can be used.
int open_cuda();

/// Whether open_cuda would succeed.
bool has_cuda();

/// A function of CUDA's runtime, which LibTorch's CUDA part has brought along;
/// null if it has not. @pre open_cuda()
void* find_in_cuda(const char* name);

/// The device of this name: `cpu`, or `cuda:N`, which open_cuda has made known.
/// @throws usage_error for another name.
c10::Device device_named(const std::string& name);

/// Memory of the host to and from which GPUs copy while both go on.
/// @pre open_cuda()
payload_memory_ptr pinned_memory();

/// Makes such memory of what this process has mapped, as long as the handle
/// lives. Null where CUDA refuses: then GPUs copy more slowly.
/// @param writable Whether this process may write to it. @pre open_cuda()
std::shared_ptr<const void> pin_memory(std::span<std::byte> mapped,
                                       bool writable);

/// The name that the driver has for this GPU, whose memory is not touched;
/// empty if the driver does not tell. @pre open_cuda()
std::string name_of_gpu(int index);

/// What tells this GPU from all others, as text; empty if the driver does not
/// tell. @pre open_cuda()
std::string id_of_gpu(int index);

/// What is known of a GPU.
struct accelerator {
  std::string name;           ///< Empty if the driver does not tell.
  uint64_t memory = 0;        ///< Bytes.
  uint64_t free = 0;          ///< Bytes.
  std::vector<int> reaches{}; ///< The GPUs whose memory it can read directly.
};

/// All GPUs. Takes some memory of each, since CUDA is asked on each of them.
/// @pre open_cuda()
std::vector<accelerator> accelerators();

/// Versions as 1000 * major + 10 * minor; nothing if it is not known.
struct cuda_versions {
  std::optional<int> driver;
  std::optional<int> runtime;
};

/// @pre open_cuda()
cuda_versions versions_of_cuda();

/// Such a version as users know it, "13.0"; "unknown" for nothing.
std::string text_of_cuda(std::optional<int> version);

} // namespace troupe::models
