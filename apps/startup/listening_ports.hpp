#pragma once
// The address of a parameter server process, or of a shard's: its port, and the
// paths that it offers for tensors. Called by main when such a process starts.

#include "actors/admission/admission.hpp"
#include "actors/control/door.hpp"
#include "apps/startup/speech.hpp"
#include "config/text/settings.hpp"
#include "config/values/address.hpp"
#include "messages/interfaces.hpp"

#include <memory>
#include <string>

namespace troupe::app {

/// Throws `run_error` when the port cannot be opened. To be called before a run
/// directory is made, so that the failure comes early.
void require_port(const config::address& where,
                  const transport::credentials& own);

/// For the user.
std::string listening_line(const config::address& bound,
                           const config::address& advertised);

/// Memory that workers on this host may read; if null, a line says why. Throws
/// `run_error` when the settings insist on it.
std::shared_ptr<transport::shared_memory>
find_shared_memory(const config::settings& settings,
                   const payload_shape& weights, const speech& say);

/// The paths that the settings let peers open at this port.
path_offers offered_paths(const config::cluster_settings& cluster,
                          std::shared_ptr<transport::acceptor> acceptor,
                          bool shares_memory);

/// Opens a port. Throws `run_error` when it cannot be had.
std::shared_ptr<transport::acceptor>
open_port(const config::address& where, const transport::credentials& own,
          const speech& say);

/// Publishes an admission, or what stands for it, at an open port.
/// @param given Is told what the nodes that come in may address.
std::shared_ptr<control::door>
publish(caf::actor_system& system, const admission_actor& admission,
        const std::shared_ptr<transport::acceptor>& acceptor,
        const control::grants_ptr& given, const speech& say);

} // namespace troupe::app
