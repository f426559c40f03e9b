#pragma once
// Where a parameter server process, or one of a shard, is found: its port, and
// the paths that it offers for tensors.

#include "actors/session/admission.hpp"
#include "apps/trainer_node/origin.hpp"
#include "config/text/settings.hpp"
#include "config/values/address.hpp"
#include "messages/interfaces.hpp"

#include <functional>
#include <memory>
#include <string>

namespace troupe::app {

/// [cluster] host and port, or those of `--listen`, as sockets want them.
config::address listens_at(const config::cluster_settings& cluster);

/// Throws `run_error` when the port cannot be had: before a run directory is
/// made, rather than when the door opens.
void require_port(const config::address& where);

/// Memory that workers on this host may read, or null with a line that says why
/// not. Throws `run_error` when the settings insist.
std::shared_ptr<transport::shared_memory>
find_shared_memory(const config::cluster_settings& cluster,
                   const payload_shape& weights, const speech& say);

/// Where peers find the paths that the settings allow; null for none. Throws
/// `run_error`.
std::shared_ptr<transport::reception>
open_reception(const config::cluster_settings& cluster, const std::string& host,
               bool shares_memory);

/// A door that nodes find.
struct listening_ports {
  uint16_t port = 0;
  std::function<void()> close;
};

/// Opens the door; it and the accept gate that looks after it are put under the
/// supervisor. Throws `run_error` when the port cannot be had.
listening_ports publish(caf::actor_system& system,
                        const supervisor_actor& supervisor,
                        const admission_actor& door,
                        const config::address& where, const speech& say);

} // namespace troupe::app
