#pragma once
// The fault injector: has the schedule of faults and does it. What it acts on
// are the simulated machines and links, and processes, which it ends and starts
// through functions of whoever made them.

#include "apps/lab/simulation/invariant_checker.hpp"
#include "apps/lab/simulation/machine.hpp"
#include "apps/lab/simulation/network.hpp"

#include <functional>
#include <memory>
#include <set>
#include <vector>

namespace troupe::simulation {

struct fault_injector_parts {
  std::vector<config::fault> schedule; ///< In the order of times.
  std::function<void(worker_id)> end_worker;
  std::function<void(worker_id)> start_worker;
  std::function<void()> end_server;
  std::function<void()> start_server;
  std::shared_ptr<simulation::machine> machine;
  std::shared_ptr<network> lines;
  std::shared_ptr<invariant_checker> watch;
};

/// Takes no messages but its own; ends when all is done.
using fault_injector_actor = caf::typed_actor<caf::result<void>(tick_atom)>;

fault_injector_actor spawn_fault_injector(caf::actor_system& system,
                                          fault_injector_parts parts);

} // namespace troupe::simulation
