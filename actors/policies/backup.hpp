#pragma once
// The policy `backup`: a step does not wait for the slowest workers.
//
// Made by `make_policy`; owned by the step scheduler. Pure; not thread-safe.

#include "actors/policies/step_round.hpp"

namespace troupe::policies {

/// Synchronous SGD with backup workers (Chen et al. 2016, arXiv:1604.00981): of
/// N workers, the first N-b gradients make the step.
///
/// - A step reads the newest version; all of its gradients are computed on it.
/// - A gradient becomes visible with the close of its step, together with the
///   others, or never. The step closes with the first min(N-b, live) gradients
///   of the current version, but at least one. N is the configured size of the
///   cluster or, where that varies, its members now; `live`
///   counts those that take part in the step: the gradients that have arrived,
///   and the members that compute, also those on an older version, since they
///   will take part. So a dead worker uses up a backup, and a step that has
///   gradients closes at the latest when no member computes any more. The sum
///   is in the order of worker ids.
/// - Nobody is ahead: staleness is 0. Those that still compute at the close are
///   stragglers, one or more steps behind. With `drop` they finish, their
///   gradient is dropped when it arrives, and they are released with the newest
///   version and join the open step late. Whoever was dropped three times in a
///   row is told to stop at the next close, so that it begins together with the
///   others: a worker that is as fast as they are, but begins each time in the
///   middle of a step (since it came back, say), would be dropped for ever.
///   With `cancel` all stragglers are told to stop at the close, once, and are
///   released when they pull; a gradient that crosses the cancellation is
///   dropped like any late one.
/// - A joiner waits for the next step. When nobody computes, it is released at
///   once. Members beyond N are further backups.
/// - A member that leaves is not waited for any more; its gradient, if held,
///   stays in the step.
/// - A member that pulls goes on at once, in the open step.
///
/// With b = 0 it decides as `sync` does while the cluster has at most N
/// members. A worker that is always slower than the others has hardly any
/// gradient accepted: its samples are learned only because the leases of
/// dropped gradients are handed out again.
class backup final : public step_round_policy {
public:
  /// @pre 0 <= b < N
  explicit backup(const policy_spec& spec);

  void resize(uint32_t workers) override { workers_ = workers; }

  std::string state() const override;

private:
  void close_if_due(decision& out) override;

  uint32_t workers_; ///< N
  uint32_t backups_; ///< b
  bool cancels_;     ///< With `late=cancel`.
  bool brings_in_phase_;
};

} // namespace troupe::policies
