#include "apps/trainer_node/participant_plan.hpp"

#include "actors/own_loop/training.hpp"
#include "apps/startup/next_life.hpp"
#include "config/sources/rendezvous.hpp"
#include "config/values/address.hpp"

namespace troupe::app {

participant_plan plan_participant(const config::settings& settings,
                                  const external_compute& process) {
  const auto& cluster = settings.cluster;
  participant_plan out;
  out.settings = settings;
  if (cluster.rank)
    out.rank = worker_id{*cluster.rank};
  out.overlap = cluster.overlap;
  if (process.line) {
    out.overlap = config::overlap_rule::off; // It takes whole tensors.
    if (process.said.leases > 0)
      out.leases = process.said.leases;
    out.takes_last = true;
    if (process.memory.gpu)
      out.settings.training.device = process.memory.gpu->device().str();
  }
  out.awaits_score = remote::registered_training() != nullptr || cluster.join;
  // A worker whose node has a shard ends with that shard, so it need not
  // follow.
  out.follows = settings.what == config::role::evaluator || cluster.join;
  if (out.follows || cluster.topology == config::topology_kind::star)
    out.meeting = config::find_meeting(cluster);
  out.begins_anew = this_life().has_value();
  return out;
}

std::string to_string(const participant_plan& plan) {
  const auto& cluster = plan.settings.cluster;
  auto is_worker = plan.settings.what == config::role::worker;
  std::string out = is_worker ? "worker" : "evaluator";
  if (plan.rank)
    out += " " + std::to_string(plan.rank->value);
  out += " for " +
         config::to_string(config::address{cluster.host, cluster.port}) +
         "; tensors by " + cluster.transport;
  if (plan.takes_last)
    out += "; another process computes";
  if (plan.leases)
    out += ", " + std::to_string(*plan.leases) + " leases ahead";
  if (plan.follows)
    out += "; follows its lead";
  return out;
}

} // namespace troupe::app
