#pragma once
// The workers and the evaluator of a virtual run, on simulated machines: each
// worker takes a few bytes. Used on the thread of the run.

#include "actors/segments/remote_module.hpp"
#include "actors/session/session_client.hpp"
#include "apps/lab/simulation/machine.hpp"
#include "apps/lab/simulation/simulated_link.hpp"
#include "apps/trainer_node/segment_places.hpp"

#include <memory>

namespace troupe::app {

/// What all members of a virtual cluster share.
struct virtual_members {
  caf::actor_system& system;
  computing_parts computing;
  std::shared_ptr<simulation::machine> machine;
  payload_shape weights;     ///< Of a tensor on a link.
  compression packs;         ///< Of gradients.
  module_roster_ptr modules; ///< Of remote modules; or null.

  const config::settings& settings() const { return computing.settings; }
};

/// The links that the settings declare.
link_terms link_terms_of(const virtual_members& all);

/// Whether the settings ask for an evaluator, and there is something to score.
bool has_evaluator(const virtual_members& all);

/// A worker whose machine is simulated.
worker_actor make_worker(const virtual_members& all, worker_id who,
                         const session_client_actor& session);

/// What the link of this worker leads to, in virtual time.
far_end make_far_end(const virtual_members& all, const lead_actor& server,
                     worker_id who);

/// Starts all members. A worker has the rank of its machine, so that the draws
/// of a rank are always the same.
void start_members(const virtual_members& all, const local_server& with);

} // namespace troupe::app
