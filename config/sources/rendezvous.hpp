#pragma once
// How a node finds the lead of its run: it is given the address, or finds it in
// a file that all nodes see. Pure; called by main's thread.

#include "config/sources/resolve.hpp"

#include <filesystem>
#include <optional>
#include <string>

namespace troupe::config {

/// The file in which the lead says where it listens, and the setting that names
/// it.
struct meeting_place {
  std::filesystem::path file;
  std::string id;      ///< The key, such as "cluster.rdzv-endpoint".
  std::string setting; ///< As it was given, for messages.
};

/// Nothing where nodes are given the address.
std::optional<meeting_place> find_meeting(const cluster_settings& cluster);

/// With `--rdzv-backend static` the endpoint of a node is its host and port.
/// Throws `usage_error` when it is no address.
void take_rendezvous(resolved& all);

/// Throws `usage_error` when backend, endpoint and id do not fit together.
void check_rendezvous(const resolved& all);

} // namespace troupe::config
