#pragma once
// The policy `async`: no worker waits for another.
//
// Made by `make_policy`; owned by the step scheduler. Pure; not thread-safe.

#include "actors/policies/by_rank.hpp"
#include "actors/policies/policy.hpp"

namespace troupe::policies {

/// Asynchronous SGD: nobody waits for anybody (Recht et al. 2011, "Hogwild!",
/// NIPS; Dean et al. 2012, "Large Scale Distributed Deep Networks", NIPS, whose
/// Downpour SGD this is, with fetch and push at every step).
///
/// - A step reads the newest version at the moment of the release.
/// - A gradient becomes visible on arrival, as an update of its own.
/// - A worker may be ahead of the others by any number of steps; staleness has
///   no bound. Its mean is n-1 in the steady state, whatever the compute times.
/// - Joiners are released at once; a member that leaves changes nothing for the
///   others; a member that pulls goes on at once.
class async final : public policy {
public:
  explicit async(const policy_spec& spec);

  void reset(version v) override;
  version current() const override;
  decision on_join(std::span<const worker_id> who) override;
  decision on_leave(worker_id who) override;
  decision on_arrival(const arrival& push) override;
  decision on_pull(worker_id who) override;
  std::vector<worker_id> waiting_for() const override;
  std::string state() const override;

private:
  std::vector<uint64_t> member_numbers() const;

  version current_;
  struct member {};

  by_rank<member> members_;
};

} // namespace troupe::policies
