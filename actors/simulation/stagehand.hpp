#pragma once
// The stagehand: has the schedule of faults and does it. What it acts on are
// the simulated machines and links, and processes, which it ends and starts
// through functions of whoever made them.

#include "actors/simulation/machine.hpp"
#include "actors/simulation/network.hpp"
#include "actors/simulation/watcher.hpp"

#include <functional>
#include <memory>
#include <set>
#include <vector>

namespace troupe::simulation {

struct stagehand_parts {
  std::vector<config::fault> schedule; ///< In the order of times.
  std::function<void(worker_id)> end_worker;
  std::function<void(worker_id)> start_worker;
  std::function<void()> end_server;
  std::function<void()> start_server;
  std::shared_ptr<simulation::machine> machine;
  std::shared_ptr<network> lines;
  std::shared_ptr<watcher> watch;
};

/// Takes no messages but its own; ends when all is done.
using stagehand_actor = caf::typed_actor<caf::result<void>(tick_atom)>;

stagehand_actor spawn_stagehand(caf::actor_system& system,
                                stagehand_parts parts);

} // namespace troupe::simulation
