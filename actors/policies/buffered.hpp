#pragma once
// The policies `buffered` and `async`: nobody waits, and several gradients make
// a step, or each gradient one.
//
// Made by `make_policy`; owned by the step scheduler. Pure; not thread-safe.

#include "actors/policies/by_rank.hpp"
#include "actors/policies/policy.hpp"

namespace troupe::policies {

/// Buffered asynchronous aggregation (Nguyen et al. 2022, "Federated Learning
/// with Buffered Asynchronous Aggregation", AISTATS, algorithm 1: FedBuff).
///
/// - A step reads the newest version at the moment of the release.
/// - A gradient becomes visible with the step of the K gradients that it is
///   one of, whoever they are from and whatever they were computed on; a worker
///   may have several of them. The sum is in the order of worker ids.
/// - A worker is released as soon as its gradient has arrived, so it may
/// compute
///   on the version that it had. Nobody waits, and staleness has no bound; its
///   mean is (n-1)/K in the steady state.
/// - Joiners are released at once; a member that leaves changes nothing for the
///   others, and its gradients stay in the step; with the last member's leave
///   the step closes, with fewer gradients. A member that pulls goes on at
///   once.
///
/// With K = 1 it is `async`, asynchronous SGD: a gradient becomes visible on
/// arrival, as an update of its own, and its mean staleness is n-1 (Recht et
/// al. 2011, "Hogwild!", NIPS; Dean et al. 2012, "Large Scale Distributed Deep
/// Networks", NIPS, whose Downpour SGD this is, with fetch and push at every
/// step).
class buffered final : public policy {
public:
  /// @param name What it is called in its state. @param size K
  buffered(std::string name, uint64_t size);

  void reset(version v) override;
  version current() const override { return current_; }
  decision on_join(std::span<const worker_id> who) override;
  decision on_leave(worker_id who) override;
  decision on_arrival(const arrival& push) override;
  decision on_pull(worker_id who) override;
  std::vector<worker_id> waiting_for() const override { return {}; }
  std::string state() const override;

private:
  struct member {};

  void close(decision& out);

  std::string name_;
  uint64_t size_; ///< K
  version current_;
  by_rank<member> members_;
  std::vector<part> gradients_;
};

} // namespace troupe::policies
