#pragma once
// The folder of a certificate authority, as `trainer_node pki` keeps it:
// ca.crt, ca.key, and a folder with tls.crt, tls.key and ca.crt for each node.
// A file appears whole or not at all; keys are readable by their owner alone.
// Errors are `failure`s. Not thread-safe for one folder.

#include "apps/pki/authority.hpp"
#include "messages/transport/tls/certificate.hpp"

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace troupe::app {

struct node_request {
  std::string name; ///< Also of its folder.
  std::vector<std::string> roles;
  std::vector<std::string> hosts;
  uint64_t days = 0; ///< How long it is valid, if its CA is valid so long.
  bool replace = false;
};

/// Makes the folder, and an authority in it that is valid for `days`. Throws
/// `usage_error` if one is there, unless it is to be replaced.
void init_authority(const std::filesystem::path& folder, uint64_t days,
                    bool replace);

/// Makes the folder of a node. Throws `usage_error` if it is there, unless it
/// is to be replaced. Returns what its certificate says.
transport::certificate_facts issue_node(const std::filesystem::path& folder,
                                        const node_request& request);

/// Replaces the certificate of a node by one that says the same and begins
/// today. The key stays, so that there is no moment with the one and without
/// the other.
/// @param days As many as before if it is not given.
transport::certificate_facts renew_node(const std::filesystem::path& node,
                                        std::optional<uint64_t> days);

/// The nodes' folders whose certificates end within so many days, by name.
std::vector<std::filesystem::path>
expiring_nodes(const std::filesystem::path& folder, uint64_t days);

/// Whether this is the folder of an authority rather than that of a node.
bool is_authority_folder(const std::filesystem::path& path);

} // namespace troupe::app
