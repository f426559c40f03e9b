#include "config/rules/varying_workers.hpp"

#include "config/patterns/param_groups.hpp"
#include "config/schema/policies.hpp"
#include "config/text/text.hpp"
#include "config/text/value.hpp"

namespace troupe::config {

namespace {

/// Refuses a number of workers that varies where that cannot be.
void check_fixed_number(const resolved& all) {
  const auto& cluster = all.values.cluster;
  if (cluster.max_workers == cluster.fewest_workers())
    return;
  auto key =
    cluster.max_workers ? "cluster.max-workers" : "cluster.min-workers";
  if (all.values.data.sharding != sharding_kind::leased)
    refuse(all, key,
           "the number of workers may vary only where all share the samples, "
           "and --sharding " +
             print(all.values.data.sharding) +
             " gives each of them its own: give as many as MIN and as MAX, or "
             "leave --sharding out");
  if (cluster.topology == topology_kind::peers)
    refuse(all, key,
           "peers deal out the weights anew when one comes or goes, and with "
           "GPUs add up gradients of all of them: give as many as MIN and as "
           "MAX, or leave --topology peers out");
}

/// The groups with a momentum of their own would have to be told apart.
void check_momentum(const resolved& all) {
  const auto& training = all.values.training;
  if (!training.momentum_by_workers.value_or(false))
    return;
  if (!facts_of(all.values.policy).momentum)
    refuse(all, "training.momentum-by-workers",
           "is for policies whose default momentum depends on the number of "
           "workers (ssp, async): leave it out");
  for (const auto& [pattern, its] : parse_param_groups(training.param_groups))
    if (its.momentum)
      refuse(all, "training.param-groups",
             in_quotes(pattern) + " has a momentum of its own, and that of the "
                                  "others varies with the number of workers: "
                                  "give --momentum, too");
}

} // namespace

void check_workers(const resolved& all) {
  const auto& cluster = all.values.cluster;
  if (!cluster.min_workers && !cluster.max_workers)
    return;
  auto least = cluster.fewest_workers();
  if (cluster.max_workers && least > *cluster.max_workers)
    refuse(all, "cluster.min-workers",
           "MIN, " + std::to_string(least) + ", is above MAX, " +
             std::to_string(*cluster.max_workers) +
             ": give the smaller number first, or a larger max-workers");
  if (cluster.workers < least)
    refuse(all, "cluster.workers",
           "is below min-workers, " + std::to_string(least));
  if (cluster.max_workers && cluster.workers > *cluster.max_workers)
    refuse(all, "cluster.workers",
           "is above max-workers, " + std::to_string(*cluster.max_workers));
  check_fixed_number(all);
  check_momentum(all);
}

} // namespace troupe::config
