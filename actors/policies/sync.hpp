#pragma once
// The policy `sync`: every step waits for all workers.
//
// Made by `make_policy`; owned by the step scheduler. Pure; not thread-safe.

#include "actors/policies/step_round.hpp"

namespace troupe::policies {

/// Synchronous SGD: a step has one gradient of every member (bulk-synchronous,
/// Valiant 1990; the baseline of Chen et al. 2016, arXiv:1604.00981).
///
/// - A step reads the newest version; all of its gradients are computed on it.
/// - A gradient becomes visible with the close of its step, together with all
///   others. The step closes when no member computes any more and at least one
///   gradient is held; the sum is in the order of worker ids.
/// - Nobody is ahead: staleness is 0.
/// - A joiner waits for the next step. When no step is in progress, it is
///   released at once.
/// - A member that leaves is not waited for any more; its gradient, if held,
///   stays in the step. If the last member that computed leaves, the step
///   closes; if it has no gradient, the joiners start it again.
/// - A member that pulls goes on at once, in the same step.
class sync final : public step_round_policy {
public:
  explicit sync(const policy_spec& spec);

  std::string state() const override;

private:
  void close_if_due(decision& out) override;
};

} // namespace troupe::policies
