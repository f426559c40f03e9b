#pragma once
// Simulated machines of workers: how long their computations take, and one
// network that computes for all of them. A worker has no module, buffers or
// samples of its own, so that it costs bytes rather than megabytes.
//
// Shared by all workers of a virtual run, on its only thread; not thread-safe.

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

/// The network that computes for all simulated workers. Not thread-safe: a
/// virtual run has only one thread.
class replica {
public:
  explicit replica(const computing_parts& parts);

  /// Gathers the samples of the lease and computes their gradient, as a compute
  /// actor does. Throws `run_error`.
  gradient_report compute(const lease& from, const payload& weights,
                          const payload& statistics);

  const models::flat_layout& layout() const { return engine_.layout(); }

  at::Tensor take_gradient() { return gradients_.take_tensor(); }

private:
  struct source {
    std::shared_ptr<const data::dataset> train;
    data::epoch_order order;
  };

  source& source_of(const lease& from);

  config::scalar_type dtype_;
  std::vector<source> sources_; ///< One for each rank, or one for all.
  config::buffers_rule rule_;
  uint32_t parts_; ///< Of a batch, each computed by a replica of its worker.
  models::compute_engine engine_;
  models::flat_pool gradients_;
};

/// A computation of a worker, whether its result was used or not.
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
  /// When the first computation began, on the run's clock, and the first one of
  /// this life of the server, which `begin_life` resets.
  std::optional<caf::actor_clock::time_point> began;
  std::optional<caf::actor_clock::time_point> began_in_life;
  double longest = 0; ///< s of the longest computation so far.
  /// Computations of a worker that begin before this time take longer by this
  /// factor.
  struct slowness {
    caf::actor_clock::time_point until;
    double factor = 1;
  };
  std::map<worker_id, slowness> slow;
  caf::actor_clock::time_point recorder_stalls_until; ///< Nothing is written.
  double slept = 0; ///< s that the process was suspended so far.
  std::function<void(const computation&)> watch; ///< Called for each, if set.

  machine(durations how_long, std::unique_ptr<replica> computes);

  void begin_life() { began_in_life.reset(); }

  /// Seconds of the worker's n-th computation, which begins now.
  double draw_seconds(worker_id who, uint64_t n,
                      caf::actor_clock::time_point now);
};

/// The machine that the settings declare. `data` may be empty under
/// `--gradients none`.
std::shared_ptr<machine> make_machine(const computing_parts& parts);

/// A compute actor and a loader in one.
using machine_actor = compute_actor::extend_with<loader_actor>;

/// The machine of one simulated worker. A gradient takes the time that was
/// drawn, and is computed at the end of it; a cancellation is answered at once.
/// Leases are passed on without samples, which `shared` gathers.
/// @param round For a worker that makes local steps; or null.
machine_actor spawn_machine(caf::actor_system& system,
                            std::shared_ptr<machine> shared, worker_id who,
                            std::unique_ptr<local_round> round = nullptr);

} // namespace troupe::simulation
