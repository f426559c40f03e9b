#pragma once
// Which addresses this machine has, where this process listens, and what others
// are told of that. Called by main when the process starts, and by who opens
// the port of a shard. Errors are `run_error`.

#include "config/text/settings.hpp"
#include "config/values/address.hpp"

#include <string>

namespace troupe::app {

/// This machine's address on the way to a host.
std::string address_towards(const std::string& host);

/// The address of a network interface: of IPv4, if it has one. Never one that
/// only the neighbours on its wire could dial.
std::string address_of_interface(const std::string& name);

/// Where this node listens: as `--listen` says; else at [cluster] host and
/// port, or for a peer with a rank above 0 at a free port of the address by
/// which others reach it.
config::address listens_at(const config::cluster_settings& cluster);

/// Where others reach a node that listens at `bound`.
/// @param leads Whether the others were told before: [cluster] host and port.
config::address advertised_at(const config::cluster_settings& cluster,
                              const config::address& bound, bool leads);

} // namespace troupe::app
