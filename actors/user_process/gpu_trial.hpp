#pragma once
// Finds out whether a worker and the process that computes for it can share
// memory of that process's GPU. Called once, before the welcome, by the thread
// that waited for the process.

#include "actors/user_process/process_line.hpp"
#include "models/device/shared_gpu_memory.hpp"

#include <memory>

namespace troupe::external {

/// Opens LibTorch's CUDA part and has the process open memory of its GPU, for a
/// trial. Where one of the two cannot, the process knows why, and null is
/// returned: they share memory of the host.
/// @param gpu Its PCI address. @throws run_error if the process ends or breaks
/// the rules.
std::shared_ptr<models::shared_gpu_memory> try_gpu(process_line& line,
                                                   const std::string& gpu);

} // namespace troupe::external
