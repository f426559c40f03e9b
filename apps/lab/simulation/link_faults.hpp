#pragma once
// The effect of faults on the links of simulated workers. Written by the fault
// injector and read by the links, all on the only thread of a virtual run.

#include "messages/ids.hpp"

#include <caf/actor_clock.hpp>

#include <algorithm>
#include <map>

namespace troupe::simulation {

/// The state of one worker's link, on the clock of the actor system.
struct line {
  using time_point = caf::actor_clock::time_point;

  time_point up_cut_until;   ///< Until then nothing reaches the server, ...
  time_point down_cut_until; ///< ... and until then nothing the worker.
  time_point slow_until;     ///< Messages sent before this time ...
  double by = 0;             ///< ... take this many seconds longer.
  time_point copied_until;   ///< Gradients sent before arrive twice, ...
  double copied_after = 0;   ///< ... the copy this many seconds later.

  bool cut_up(time_point now) const { return now < up_cut_until; }

  bool cut_down(time_point now) const { return now < down_cut_until; }

  bool cut(time_point now) const { return cut_up(now) || cut_down(now); }

  double delay(time_point now) const { return now < slow_until ? by : 0; }

  bool copies(time_point now) const { return now < copied_until; }
};

using network = std::map<worker_id, line>;

} // namespace troupe::simulation
