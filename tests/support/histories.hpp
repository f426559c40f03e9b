#pragma once
// Clusters without actors for tests of the step scheduler, and what may happen
// to their workers.

#include "tests/policies/conformance.hpp"
#include "tests/support/played_cluster.hpp"

#include <cstdint>
#include <random>
#include <vector>

namespace troupe::test {

using policies::policy_spec;

/// Each policy three times, with different parameters.
inline std::vector<policy_spec> all_policies(uint32_t workers) {
  std::vector<policy_spec> out;
  for (const auto& name : config::policy_names())
    for (uint64_t seed : {1, 2, 3}) {
      chance random{seed};
      out.push_back(any_spec(name, workers, random));
    }
  return out;
}

inline cores::stop_limits epochs(uint64_t count) {
  cores::stop_limits out;
  out.epochs = count;
  return out;
}

inline policy_spec sync_of(uint32_t workers) {
  return policies::read_spec("sync", workers);
}

inline std::vector<worker_id> ranks(uint32_t count) {
  std::vector<worker_id> out;
  for (uint32_t i = 0; i < count; ++i)
    out.push_back(worker_id{i});
  return out;
}

/// All workers in the cluster, computing.
inline played_cluster full_cluster(const policy_spec& spec, uint64_t samples,
                                   uint64_t batch,
                                   const cores::stop_limits& limits = {}) {
  played_cluster cluster{spec, samples, batch, limits};
  for (auto who : ranks(spec.workers)) {
    cluster.enlist(who);
    cluster.pull(who);
  }
  cluster.join(ranks(spec.workers));
  return cluster;
}

inline worker_id anyone(const std::vector<worker_id>& from,
                        std::mt19937_64& random) {
  return from[random() % from.size()];
}

inline void come_or_go(played_cluster& cluster, worker_id who,
                       std::mt19937_64& random) {
  if (cluster.contains(who))
    return cluster.leave(who);
  cluster.enlist(who);
  if (random() % 2)
    cluster.pull(who);
}

/// One thing that may happen next to this worker.
inline void act(played_cluster& cluster, worker_id who,
                std::mt19937_64& random) {
  auto late = cluster.step_scheduler().awaited();
  if (!late.empty() && random() % 4 == 0)
    return cluster.deal_again(anyone(late, random));
  auto chance = random() % 100;
  if (chance < 4 || !cluster.contains(who))
    come_or_go(cluster, who, random);
  else if (!cluster.joined(who) && chance < 50)
    cluster.join({who});
  else if (cluster.idle(who))
    cluster.pull(who);
  else if (cluster.computing(who) && chance < 10) {
    if (cluster.push_bad(who))
      cluster.leave(who);
  } else if (cluster.computing(who) && chance < 85)
    cluster.finish(who);
  else if (chance < 93)
    cluster.push_again(who);
  else
    cluster.push_stale(who);
}

inline uint64_t samples_of(const played_cluster::step& step) {
  uint64_t out = 0;
  for (const auto& from : step.leases)
    out += from.count;
  return out;
}

} // namespace troupe::test
