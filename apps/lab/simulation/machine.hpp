#pragma once
// What stands in for the machines of simulated workers: how long they take, and
// one network that computes for all of them. Workers own no module, no buffers
// and no samples, so that each costs bytes, not models.

#include "actors/worker/computing.hpp"
#include "apps/lab/simulation/durations.hpp"
#include "data/sampling/permutation.hpp"
#include "models/engine/compute.hpp"
#include "models/layout/flat_pool.hpp"

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <vector>

namespace troupe::simulation {

/// The network that computes for all simulated workers. Not thread-safe; all of
/// a virtual run is one thread.
class replica {
public:
  explicit replica(const computing_parts& parts);

  /// Gathers the samples of the lease and computes their gradient, as a
  /// compute actor does. Throws `run_error`.
  gradient_report compute(const lease& from, const payload& weights,
                          const payload& statistics);

private:
  struct source {
    std::shared_ptr<const data::dataset> train;
    data::epoch_order order;
  };

  source& source_of(const lease& from);

  config::scalar_type dtype_;
  std::vector<source> sources_; ///< Of each rank, or one for all.
  config::buffers_rule rule_;
  models::compute_engine engine_;
  models::flat_pool gradients_;
};

/// A computation of a worker, whether it was of use or not.
struct computation {
  worker_id worker;
  double begin = 0; ///< Virtual s since the first of the run began.
  double end = 0;
  bool cancelled = false;
};

/// What all simulated workers of a run share.
struct machine {
  durations takes;
  std::unique_ptr<replica> network; ///< Null: `--gradients none`.
  /// When the first computation began, on the run's clock; and the first of
  /// this life of the server, which `begin_life` forgets.
  std::optional<caf::actor_clock::time_point> began;
  std::optional<caf::actor_clock::time_point> began_in_life;
  double longest = 0; ///< s of the longest computation so far.
  /// Computations of a worker that begin before this time take so much longer.
  struct slowness {
    caf::actor_clock::time_point until;
    double factor = 1;
  };
  std::map<worker_id, slowness> slow;
  caf::actor_clock::time_point recorder_stalls_until; ///< Nothing is written.
  double slept = 0; ///< s that all of the process stood still, so far.
  std::function<void(const computation&)> watch; ///< Told of each, if set.

  machine(durations how_long, std::unique_ptr<replica> computes);

  void begin_life() { began_in_life.reset(); }

  /// s of the worker's n-th computation, which begins now.
  double take(worker_id who, uint64_t n, caf::actor_clock::time_point now);
};

/// The machine that the settings declare. `data` may be empty under
/// `--gradients none`.
std::shared_ptr<machine> make_machine(const computing_parts& parts);

/// Compute actor and loader in one.
using machine_actor = compute_actor::extend_with<loader_actor>;

/// The machine of one simulated worker. A gradient takes as long as drawn, and
/// is computed when that time is over; a cancel is answered at once. Leases are
/// handed on without samples, which `shared` gathers.
machine_actor spawn_machine(caf::actor_system& system,
                            std::shared_ptr<machine> shared, worker_id who);

} // namespace troupe::simulation
