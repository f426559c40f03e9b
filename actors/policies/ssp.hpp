#pragma once
// The policy `ssp`: workers may be ahead of the slowest by a fixed number of
// steps.
//
// Made by `make_policy`; owned by the step scheduler. Pure; not thread-safe.

#include "actors/policies/by_rank.hpp"
#include "actors/policies/policy.hpp"

#include <map>
#include <set>

namespace troupe::policies {

/// Stale synchronous parallel (Ho et al. 2013, "More Effective Distributed ML
/// via a Stale Synchronous Parallel Parameter Server", NIPS).
///
/// - Each member has a clock, the number of its gradients that were applied.
/// - A step reads the newest version at the moment of the release.
/// - A gradient becomes visible on arrival, as an update of its own; it does
///   not wait for the end of a clock. So s = 0 waits as `sync` does, but makes
///   other updates, and its weights are not bit-equal.
/// - A member may be ahead of the slowest by s clocks: after its gradient is
///   applied it is released if its clock minus the slowest clock is at most s,
///   else it is held until the slowest clock has risen. Releases of one event
///   are in the order of worker ids.
/// - A joiner starts at the slowest member's clock (0 in an empty cluster) and
///   is released at once.
/// - When a member leaves, the slowest clock may rise and others be released.
/// - A member that pulls goes on at once; its clock stays.
///
/// Staleness is at most (2s+1)(n-1) updates, n being the members that were in
/// the cluster while the gradient was computed (one that left and came back
/// counts twice): each other member is at most s behind when the weights are
/// read, and at most s+1 ahead when the gradient is applied.
///
/// It hides temporary stragglers; a worker that is permanently slow sets the
/// pace, whatever s is.
class ssp final : public policy {
public:
  explicit ssp(const policy_spec& spec);

  void reset(version v) override;
  version current() const override;
  decision on_join(std::span<const worker_id> who) override;
  decision on_leave(worker_id who) override;
  decision on_arrival(const arrival& push) override;
  decision on_pull(worker_id who) override;
  std::vector<worker_id> waiting_for() const override;
  std::string state() const override;

private:
  /// The state that a reset starts anew.
  struct clocks {
    version current;
    by_rank<uint64_t> clocks;
    std::map<uint64_t, size_t> members_at; ///< Clock -> how many are there.
    std::set<std::pair<uint64_t, worker_id>> held;

    /// The clock of the slowest member; 0 in an empty cluster.
    uint64_t slowest() const;

    bool holds(worker_id who, uint64_t clock) const;
    void enter(worker_id who, uint64_t clock);
    void leave_clock(uint64_t clock);
  };

  void release_due(decision& out);

  uint64_t staleness_; ///< s
  clocks clocks_;
};

} // namespace troupe::policies
