#pragma once
// How a worker or an evaluator looks for its place: all that is known before
// its first actor. Made by main's thread.

#include "apps/trainer_node/participants.hpp"
#include "config/sources/rendezvous.hpp"
#include "config/text/settings.hpp"

#include <cstdint>
#include <optional>
#include <string>

namespace troupe::app {

struct participant_plan {
  config::settings settings;      ///< Of this node only.
  std::optional<worker_id> rank;  ///< The rank to ask for.
  config::overlap_rule overlap{}; ///< Of tensors.
  std::optional<uint32_t> leases; ///< To have ahead, if not as usual.
  bool takes_last = false;        ///< Wants the weights that the run ends with.
  bool awaits_score = false;      ///< The run ends with its last score.
  bool follows = false;     ///< Looks for its lead at the other nodes, too.
  bool begins_anew = false; ///< Together with all nodes of the run.
  /// Where a lead says that it is; not for a worker that ends with the shard of
  /// its node.
  std::optional<config::meeting_place> meeting;
};

/// @param process What computes for the node instead of this process, if any.
participant_plan plan_participant(const config::settings& settings,
                                  const external_compute& process);

/// For people and tests: who looks for whom, and who computes.
std::string to_string(const participant_plan& plan);

} // namespace troupe::app
