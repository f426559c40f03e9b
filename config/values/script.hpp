#pragma once
// `--network script:FILE`: a network in a TorchScript file. Such a file is a
// program; a node runs it only if its own settings allow that. Pure functions.

#include "config/text/settings.hpp"

#include <string>
#include <string_view>

namespace troupe::config {

bool is_script(std::string_view network);

/// The FILE of `script:FILE`. @pre is_script(network)
std::string script_file(std::string_view network);

/// The network's name for use in file names: without folders and extension.
std::string short_name(std::string_view network);

/// Throws `usage_error` when the network is a script and this node does not
/// allow scripts.
void require_allowed(const training_settings& training);

} // namespace troupe::config
