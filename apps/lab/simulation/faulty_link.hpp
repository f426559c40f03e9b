#pragma once
// A simulated link that faults act on, with both of its ends. For the virtual
// clock with faults.
//
// It is to worker and server what a connection between processes is:
// - While it is cut, what was sent waits, and arrives when the cut is over,
//   unless the silence lasts too long: then first the worker's end and, within
//   an eighth of that time, the server's end are gone, with all that waited. Of
//   a cut in one direction only the end that hears nothing gives up; the other
//   goes with it, as soon as it can be told.
// - The worker's end dies with the worker: the server's end goes, too, as soon
//   as word of it can get through.
// - The server dies: the worker's end goes at once.
// - Gradients that are under way when one of the two dies arrive all the same,
//   late and as from nobody, at whatever life of the server is there then.
//
// The server's end is what the house sees of the worker: pings and cancels take
// the same way as tensors.

#include "actors/links/push_observer.hpp"
#include "actors/session/session_client.hpp"
#include "apps/lab/simulation/network.hpp"

#include <functional>
#include <memory>
#include <optional>

namespace troupe {

struct faulty_link_parts {
  worker_id rank;
  local_server with;
  worker_actor worker;
  link_terms terms;
  double silence = 15; ///< s until an end takes the other for gone.
  std::shared_ptr<simulation::network> lines;
  std::shared_ptr<push_observer> watch;
  /// The house of the server now, for what outlives the link.
  std::function<std::optional<local_server>()> find;
};

faulty_link spawn_faulty_link(caf::actor_system& system,
                              faulty_link_parts parts);

} // namespace troupe
