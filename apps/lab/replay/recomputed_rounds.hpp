#pragma once
// The rounds of local steps of a recorded run, made once more: each from the
// state that its worker's optimiser had then.
//
// Used by the replay driver on its thread; not thread-safe.

#include "actors/worker/computing_parts.hpp"
#include "apps/lab/replay/recomputing.hpp"
#include "apps/lab/simulation/machine.hpp"
#include "models/optim/local_steps.hpp"

#include <deque>
#include <map>
#include <memory>

namespace troupe::replay {

class recomputed_rounds {
public:
  /// @param states As in recompute_here.
  recomputed_rounds(const computing_parts& computing,
                    const models::flat_layout& layout, worker_store states,
                    version start);

  /// Throws `run_error` when the state is not known.
  gradient_report compute(const recomputing::task& job,
                          simulation::replica& network);

private:
  using numbers = std::shared_ptr<const models::inner_numbers>;

  models::local_steps& steps_of(worker_id who);
  numbers state_of(worker_id who, uint64_t steps);
  numbers state_at_start(worker_id who, uint64_t steps) const;

  computing_parts parts_;
  models::flat_layout layout_;
  /// Of each worker, where it keeps weights from round to round; else of all
  /// alike.
  std::map<worker_id, models::local_steps> steps_;
  worker_store states_;
  version start_;
  /// The last ones of each worker: a round that the server has not taken in the
  /// end is followed by one from the state before.
  std::map<worker_id, std::deque<numbers>> last_;
  /// The version of the latest round of each worker.
  std::map<worker_id, version> began_at_;
};

} // namespace troupe::replay
