#pragma once
// Networks that are only described (`--network weights:FILE`): a safetensors
// file tells the tensors of a model that another process computes, and their
// first values. docs/formats.md says what its metadata means. Stateless; any
// thread.

#include "models/network.hpp"

#include <memory>
#include <string>

namespace troupe::models {

/// A network with the tensors of the file. Its `forward` throws.
/// @throws run_error that names the file and what is wrong in it.
std::shared_ptr<network> load_description(const std::string& file);

/// SHA-256 of what the file describes, whatever the values: names, types,
/// shapes and metadata, in the order of the file; but not of what it says in
/// `troupe.carried` and `troupe.constant`.
/// @throws run_error if the file cannot be read.
std::string digest_of_description(const std::string& file);

} // namespace troupe::models
