#pragma once
// Reads the metadata of a safetensors file without its tensors. Stateless; any
// thread.

#include "models/storage/safetensors.hpp"

namespace troupe::models {

/// The metadata of a file; its tensors are neither read nor checked.
/// @throws run_error with one line about the file.
tensor_metadata read_metadata(const std::filesystem::path& path);

} // namespace troupe::models
