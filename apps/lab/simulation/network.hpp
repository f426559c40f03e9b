#pragma once
// What faults do to the links of simulated workers. Written by the fault
// injector, looked at by the links; all of a virtual run is one thread.

#include "messages/ids.hpp"

#include <caf/actor_clock.hpp>

#include <algorithm>
#include <map>

namespace troupe::simulation {

/// The state of one worker's link, on the clock of the actor system.
struct line {
  using time_point = caf::actor_clock::time_point;

  time_point up_cut_until;   ///< Nothing gets through to the server before, ...
  time_point down_cut_until; ///< ... and nothing to the worker.
  time_point slow_until;     ///< Messages that enter before ...
  double by = 0;             ///< ... take so many s longer.
  time_point copied_until;   ///< Gradients that enter before come twice, ...
  double copied_after = 0;   ///< ... the copy so many s later.

  bool cut_up(time_point now) const { return now < up_cut_until; }

  bool cut_down(time_point now) const { return now < down_cut_until; }

  bool cut(time_point now) const { return cut_up(now) || cut_down(now); }

  double delay(time_point now) const { return now < slow_until ? by : 0; }

  bool copies(time_point now) const { return now < copied_until; }
};

using network = std::map<worker_id, line>;

} // namespace troupe::simulation
