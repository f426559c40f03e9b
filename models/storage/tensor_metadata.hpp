#pragma once
// What a safetensors file says of itself, without the cost of its tensors. Any
// thread.

#include "models/storage/safetensors.hpp"

namespace troupe::models {

/// The metadata of a file, whose tensors are left unread and unchecked.
/// @throws run_error with one line about the file.
tensor_metadata read_metadata(const std::filesystem::path& path);

} // namespace troupe::models
