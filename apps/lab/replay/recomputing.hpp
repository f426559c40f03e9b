#pragma once
// Who computes the gradients of a recorded run once more: the run's network, in
// this process, or the user's program, in another (`--compute external`).
//
// Used by the replay driver on its thread; not thread-safe.

#include "actors/user_process/shared_blocks.hpp"
#include "actors/worker/computing.hpp"

#include <memory>
#include <span>

namespace troupe::replay {

class recomputing {
public:
  /// A gradient as its worker was asked for it.
  struct task {
    std::span<const lease> from; ///< At least one; in their order.
    worker_id who;
    uint64_t inner_steps = 0; ///< As in a push_header.
    uint32_t early_steps = 0; ///< The same.
    version computed_on;
    bool last_was_dropped = false; ///< The worker's gradient before this one.
    payload weights;
    payload statistics;    ///< The worker's own, under `--buffers local`.
    uint32_t fragment = 0; ///< As in a release_header.
    bool goes_on = false;  ///< The same.
  };

  virtual ~recomputing() = default;

  /// Throws `run_error` when it cannot be computed.
  virtual gradient_report compute(const task& job) = 0;

  /// Whether it wants the weights that the run ends with.
  virtual bool takes_last() const { return false; }

  /// The run ends with these weights.
  /// @param applied Whether the gradient that was computed last is in them.
  virtual void finish(version, const payload& /*weights*/, bool /*applied*/) {}
};

/// Computes with the network of the settings, in this process.
/// @param states Where the states of the workers' own optimisers are that the
/// run began with, if it went on from this version.
std::unique_ptr<recomputing> recompute_here(const computing_parts& computing,
                                            int threads,
                                            const worker_store& states,
                                            version start);

/// Has a process compute that has said hello. It computes for all workers of
/// the run, one gradient at a time, and sees only leases whose gradients
/// arrived in the run.
std::unique_ptr<recomputing> recompute_in(external::process_line_ptr process,
                                          external::shared_places memory,
                                          const computing_parts& computing);

} // namespace troupe::replay
