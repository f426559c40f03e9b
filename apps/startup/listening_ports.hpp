#pragma once
// The address of a parameter server process, or of a shard's: its port, and the
// paths that it offers for tensors. Called by main when such a process starts.

#include "actors/admission/accept_gate.hpp"
#include "actors/admission/admission.hpp"
#include "apps/startup/speech.hpp"
#include "config/text/settings.hpp"
#include "config/values/address.hpp"
#include "messages/interfaces.hpp"

#include <functional>
#include <memory>
#include <string>

namespace troupe::app {

/// [cluster] host and port, or those of `--listen`, in the form that sockets
/// need.
config::address listens_at(const config::cluster_settings& cluster);

/// Throws `run_error` when the port cannot be opened. To be called before a run
/// directory is made, so that the failure comes early.
void require_port(const config::address& where);

/// Memory that workers on this host may read; if null, a line says why. Throws
/// `run_error` when the settings insist on it.
std::shared_ptr<transport::shared_memory>
find_shared_memory(const config::settings& settings,
                   const payload_shape& weights, const speech& say);

/// Where peers open the paths that the settings allow; null for none. Throws
/// `run_error`.
std::shared_ptr<transport::reception>
open_reception(const config::cluster_settings& cluster, const std::string& host,
               bool shares_memory);

/// The published port of a node's admission.
struct listening_ports {
  uint16_t port = 0;
  accept_gate_actor gate;
  std::function<void()> close; ///< Ends the gate, but not the admission.
};

/// Publishes the admission. Throws `run_error` when the port cannot be opened.
listening_ports open_port(caf::actor_system& system,
                          const admission_actor& admission,
                          const config::address& where, const speech& say);

/// The same for the whole life of the process, with a line: the admission and
/// its gate are put under the supervisor.
listening_ports publish(caf::actor_system& system,
                        const supervisor_actor& supervisor,
                        const admission_actor& admission,
                        const config::address& where, const speech& say);

} // namespace troupe::app
