#pragma once
// Spawns what computes a network in segments: chains with their stages beside
// workers, remote modules beside the server. Composition only.

#include "actors/links/framed_gateway.hpp"
#include "actors/segments/remote_module.hpp"
#include "actors/segments/segment_chain.hpp"
#include "actors/segments/stage.hpp"
#include "actors/session/session_client.hpp"
#include "actors/worker/computing.hpp"

#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>

namespace troupe::app {

/// How the network is cut; null if each worker has it in one piece.
/// @param shape C, H, W of a sample.
std::shared_ptr<const models::segment_plan>
make_plan(const config::settings& settings, int64_t classes,
          const std::array<uint64_t, 3>& shape);

/// Exchanges the devices that the plan names, for the parts that this process
/// computes, for those that it has; without a plan, chooses those of replicas,
/// and says so if there are several. To be called after choose_device, before
/// stages and replicas are made. Throws `run_error` when there is no such GPU.
void choose_devices(computing_parts& computing);

/// Has all parts computed on the CPU, as a replay does.
void choose_cpu(computing_parts& computing);

/// Spawns the stages of one worker.
using stage_factory = std::function<stage_actor(const stage_place&)>;

/// Stages on threads of their own.
stage_factory make_stages(caf::actor_system& system,
                          const computing_parts& computing);

/// Whether the server has parts of the network.
bool has_remote_modules(const computing_parts& computing);

/// The compute actor of a worker whose network is in segments.
/// @param loss In the place of the data's; or null.
compute_actor make_chain(caf::actor_system& system,
                         const computing_parts& computing,
                         const stage_factory& stages,
                         const loss_actor& loss = {});

/// The same for a program that trains with a loop of its own.
compute_actor make_training_loop(caf::actor_system& system,
                                 const computing_parts& computing);

/// What the link of one worker leads to: the server, which has all shards, or
/// the remote module before it, with these stages.
far_end make_far_end(caf::actor_system& system,
                     const computing_parts& computing, const lead_actor& server,
                     const module_roster_ptr& roster,
                     const stage_factory& stages);

/// The shard before which remote modules stand.
struct module_owner {
  parameter_server_actor server;
  /// Its rank, if other shards are in processes of their own; nothing: it has
  /// all parts that are on servers.
  std::optional<uint32_t> rank;
  models::element_range range; ///< Its elements of the flat weights.
  module_roster_ptr roster;
};

/// Makes the remote module of a worker in another process; null if the shard
/// has no parts of the network.
module_factory module_maker(caf::actor_system& system,
                            const computing_parts& computing,
                            const module_owner& owner);

} // namespace troupe::app
