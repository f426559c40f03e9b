#pragma once
// A network of GPUs over NCCL (gpu_network.hpp): one thread that alone calls
// NCCL for a device, and sleeps while nothing is under way.

#include "messages/transport/nccl/gpu_network.hpp"
#include "models/device/nccl/library.hpp"

namespace troupe::models::nccl {

/// @param device N of `cuda:N`.
/// @param gpu Its name among those of all hosts; no two of a group are alike.
/// @pre open_cuda()
transport::gpu_network_ptr make_network(library_ptr lib, int device,
                                        std::string gpu);

} // namespace troupe::models::nccl
