#pragma once
// The cluster of a virtual run with faults: each worker, and each life of the
// server, acts like a process of its own that can die and be started again.
// Used on the thread of the virtual run.

#include "apps/lab/virtual_cluster.hpp"
#include "apps/lab/virtual_members.hpp"
#include "apps/trainer_node/server_life.hpp"
#include "apps/trainer_node/server_plan.hpp"

namespace troupe::app {

struct faulty_cluster_parts {
  virtual_members all;
  server_plan plan; ///< Of the first life, which has begun.
  life_options options;
};

/// Starts everything. Throws `failure` when the server cannot start.
virtual_cluster start_faulty_cluster(faulty_cluster_parts parts);

} // namespace troupe::app
