#pragma once
// Weights in a file of torch.save, in the zip form that PyTorch writes since
// 1.6: a state dict, or a checkpoint that holds one. No code of the file runs;
// what is no tensor or plain value is refused (pickle.hpp).
//
// Source: PyTorch 2.11, torch/serialization.py and torch/_utils.py. Pure; any
// thread. Errors are `run_error`s that begin with `where`.

#include "models/storage/safetensors.hpp"

#include <span>
#include <string>
#include <vector>

namespace troupe::models {

/// What a file of torch.save holds.
struct torch_content {
  /// The state dict, in its order. Tensors lie in the file's bytes or, where
  /// they are not row-major there, in `copies`.
  std::vector<named_tensor> tensors;
  std::vector<file_bytes> copies;
  bool has_optimizer = false; ///< The state of an optimiser lies beside it.
};

/// The result refers to `file`.
torch_content read_torch(std::span<const std::byte> file,
                         const std::string& where);

/// Whether the bytes begin as a zip archive does.
bool is_zip(std::span<const std::byte> file);

/// Whether they begin as torch.save's files did before 1.6.
bool is_old_torch(std::span<const std::byte> file);

} // namespace troupe::models
