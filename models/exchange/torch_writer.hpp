#pragma once
// Writes a state dict as torch.save does, so that torch.load reads it with its
// defaults (`weights_only=True`).
//
// Source: PyTorch 2.11, torch/serialization.py. Thread-safe for different
// files.

#include "models/storage/safetensors.hpp"

#include <span>

namespace troupe::models {

/// Tensors are written from their memory, in this order, each with a storage of
/// its own. Throws `run_error` if the file cannot be written.
void write_torch(output_file& out, std::span<const named_tensor> tensors);

} // namespace troupe::models
