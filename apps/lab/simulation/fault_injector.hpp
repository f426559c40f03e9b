#pragma once
// The fault injector carries out a schedule of faults. It acts on simulated
// machines and links directly, and on simulated processes through functions
// that end and start them.
//
// An actor of a virtual run, on its only thread; made by the faulty cluster.

#include "apps/lab/simulation/invariant_checker.hpp"
#include "apps/lab/simulation/link_faults.hpp"
#include "apps/lab/simulation/machine.hpp"

#include <functional>
#include <memory>
#include <set>
#include <vector>

namespace troupe::simulation {

struct fault_injector_parts {
  std::vector<config::fault> schedule; ///< Ordered by time.
  std::function<void(worker_id)> end_worker;
  std::function<void(worker_id)> start_worker;
  std::function<void()> end_server;
  /// Makes the server's life fail, which takes a while; a tick says that it has
  /// ended.
  std::function<void()> fail_server;
  std::function<void()> start_server;
  std::shared_ptr<simulation::machine> machine;
  std::shared_ptr<network> lines;
  std::shared_ptr<invariant_checker> watch;
};

/// Gets a message when the server's life has failed; ends when all faults are
/// done.
using fault_injector_actor = caf::typed_actor<caf::result<void>(tick_atom)>;

fault_injector_actor spawn_fault_injector(caf::actor_system& system,
                                          fault_injector_parts parts);

} // namespace troupe::simulation
