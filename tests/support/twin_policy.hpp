#pragma once
// A policy for tests of decisions with several updates: nobody waits, and every
// second gradient makes two steps at once, one of each of the last two
// gradients. A program that links twin_policy.cpp has it as `twins`.

#include "actors/policies/policy.hpp"

#include <optional>
#include <set>

namespace troupe::test {

class twin_policy final : public policies::policy {
public:
  void reset(version v) override;
  version current() const override { return current_; }
  policies::decision on_join(std::span<const worker_id> who) override;
  policies::decision on_leave(worker_id who) override;
  policies::decision on_arrival(const policies::arrival& what) override;
  policies::decision on_pull(worker_id who) override;
  std::vector<worker_id> waiting_for() const override { return {}; }
  std::string state() const override;

private:
  version current_;
  std::set<worker_id> members_;
  std::optional<push_id> first_; ///< Waits for the second one.
};

} // namespace troupe::test
