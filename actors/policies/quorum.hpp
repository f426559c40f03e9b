#pragma once
// The policy `quorum`: a step waits for some of the workers, and for the others
// only so long.
//
// Made by `make_policy`; owned by the step scheduler. Pure; not thread-safe.

#include "actors/policies/step_round.hpp"

namespace troupe::policies {

/// A quorum with a grace window (Decoupled DiLoCo, 2026, arXiv:2604.21428,
/// where the learners of a quorum make an outer step).
///
/// - A step reads the newest version.
/// - When K gradients are in the open step, its window begins. The step closes
///   when the window is over, or at once when no member computes any more. K is
///   the given number or, if that is 0, more than half of the workers; with
///   fewer members than K the step waits for all of them. The sum is in the
///   order of worker ids.
/// - A gradient counts in the step that is open when it arrives, also when it
///   was computed on an older version: none is dropped as late. So a worker
///   that is always too late is in every other step, say, and its gradient has
///   a staleness of as many steps as it has missed.
/// - A joiner waits for the next step. When nobody computes, it is released at
///   once.
/// - A member that leaves is not waited for any more; its gradient, if held,
///   stays in the step.
/// - A member that pulls goes on at once, in the open step.
///
/// A window of 0 closes the step with the K-th gradient. With K equal to the
/// number of workers it decides as `sync` does.
class quorum final : public step_round_policy {
public:
  /// @pre K <= N
  explicit quorum(const policy_spec& spec);

  void reset(version v) override;

  void resize(uint32_t workers) override { workers_ = workers; }

  decision on_window_over(version v) override;

  std::string state() const override;

private:
  void close_if_due(decision& out) override;

  uint32_t workers_; ///< N
  uint64_t quorum_;  ///< K; 0: more than half.
  double window_;    ///< s
  /// The version whose next step has enough gradients: its window has begun.
  std::optional<version> begun_;
};

} // namespace troupe::policies
