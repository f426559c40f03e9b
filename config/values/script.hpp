#pragma once
// Networks that are a file rather than a name: `--network script:FILE`, a
// TorchScript file, which is a program; a node runs it only if its own settings
// allow that. `--network weights:FILE`, a safetensors file that describes a
// network which another process computes (`--compute external`).
// Stateless; any thread.

#include "config/text/settings.hpp"

#include <filesystem>
#include <string>
#include <string_view>

namespace troupe::config {

bool is_script(std::string_view network);

/// Whether the network is only described: it has tensors, and no forward.
bool is_described(std::string_view network);

/// Whether the network is in a file, one or the other.
inline bool is_file(std::string_view network) {
  return is_script(network) || is_described(network);
}

/// The FILE, in this node's home folder where it begins with `~`. Throws
/// `bad_value` if that has no meaning here. @pre is_file(network)
std::string network_file(std::string_view network);

/// weights:FILE
std::string described_by(const std::filesystem::path& file);

/// The network's name for use in file names: without folders and extension;
/// that of an open file (/proc/self/fd/N) is the one under which it was made.
std::string short_name(std::string_view network);

/// Throws `usage_error` when the network is a script and this node does not
/// allow scripts.
void require_allowed(const training_settings& training);

} // namespace troupe::config
