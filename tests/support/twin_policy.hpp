#pragma once
// A policy for tests of decisions with several updates: a gradient waits for a
// second one, and each of the two makes a step, both at once. When all workers
// wait, what is there is applied. A program that links twin_policy.cpp has it
// as `twins`.

#include "actors/policies/policy.hpp"

#include <set>
#include <vector>

namespace troupe::test {

class twin_policy final : public policies::policy {
public:
  void reset(version v) override;
  version current() const override { return current_; }
  policies::decision on_join(std::span<const worker_id> who) override;
  policies::decision on_leave(worker_id who) override;
  policies::decision on_arrival(const policies::arrival& push) override;
  policies::decision on_pull(worker_id who) override;
  std::vector<worker_id> waiting_for() const override;
  std::string state() const override;

private:
  policies::decision apply_if_due();

  version current_;
  std::set<worker_id> members_;
  std::set<worker_id> waiting_; ///< Of the members.
  std::vector<push_id> held_;   ///< In the order in which they came.
};

} // namespace troupe::test
