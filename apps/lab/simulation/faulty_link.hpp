#pragma once
// A simulated link that faults act on, with both of its ends: two actors of a
// virtual run with faults, on its only thread.
//
// It behaves like a connection between processes:
// - While it is cut, messages wait, and arrive when the cut is over. If the
//   silence lasts too long, first the worker's end and, within an eighth of
//   that time, the server's end terminate, and the waiting messages are lost.
//   If only one direction is cut, the end that hears nothing gives up; the
//   other follows as soon as it can be told.
// - When the worker dies, the worker's end dies with it, and the server's end
//   follows as soon as the news can get through.
// - When the server dies, the worker's end terminates at once.
// - Gradients that are on their way when one of the two dies still arrive,
//   late and without a sender, at the life of the server that is there then.
//
// The server sees the server's end in place of the worker: pings and cancels
// take the same way as tensors.

#include "apps/lab/simulation/simulated_link.hpp"

namespace troupe {

struct faulty_link_parts {
  far_end with;
  worker_actor worker;
  link_terms terms;
  link_faults faults;
};

/// For `spawn_simulated_link`.
made_link spawn_faulty_link(caf::actor_system& system, faulty_link_parts parts);

} // namespace troupe
