#pragma once
// Networks that are only described (`--network weights:FILE`): a safetensors
// file tells the tensors of a model that another process computes, and their
// first values. docs/formats.md says what its metadata means. Stateless; any
// thread.

#include "models/network.hpp"

#include <cstdint>
#include <memory>
#include <string>

namespace troupe::models {

/// A description without its values, for other processes.
struct described_file {
  std::string head;   ///< What the file begins with, up to the values.
  uint64_t bytes = 0; ///< Of the whole file.
};

/// What the file of this network describes; nothing if it is no such network.
/// @throws run_error if the file cannot be read.
described_file description_without_values(const std::string& network);

/// Puts the description into a file in memory without a name, which lives as
/// long as the process; its values are 0. Returns the network for this process:
/// weights:FILE. Equal descriptions share a file.
/// @param name Of the network, for messages.
/// @throws run_error if it describes nothing. Any thread.
std::string keep_description(const described_file& source,
                             const std::string& name);

/// A network with the tensors of the file. Its `forward` throws.
/// @throws run_error that names the file and what is wrong in it.
std::shared_ptr<network> load_description(const std::string& file);

/// SHA-256 of what the file describes, whatever the values: names, types,
/// shapes and metadata, in the order of the file; but not of what it says in
/// `troupe.carried` and `troupe.constant`.
/// @throws run_error if the file cannot be read.
std::string digest_of_description(const std::string& file);

} // namespace troupe::models
