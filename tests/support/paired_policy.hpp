#pragma once
// A policy for tests of gradient weights: every two gradients that arrive make
// a step, in which the first by id has the weight `lower`; the learning rate is
// halved. With `goes_on` a worker continues at once, so that both gradients may
// be its own.

#include "actors/policies/policy.hpp"

#include <algorithm>
#include <utility>

namespace troupe::test {

class paired_policy final : public policies::policy {
public:
  explicit paired_policy(const policies::policy_spec& spec,
                         bool goes_on = false)
    : lower_(spec.parameters.number("lower")), goes_on_(goes_on) {
    // nop
  }

  void reset(version v) override { current_ = v; }

  version current() const override { return current_; }

  policies::decision on_join(std::span<const worker_id> who) override {
    policies::decision out;
    out.release.assign(who.begin(), who.end());
    return out;
  }

  policies::decision on_leave(worker_id) override { return {}; }

  policies::decision on_arrival(const policies::arrival& push) override {
    policies::decision out;
    step_.gradients.push_back({push.id});
    if (goes_on_)
      out.release.push_back(push.id.worker);
    if (step_.gradients.size() < 2)
      return out;
    std::ranges::sort(step_.gradients, {}, &policies::part::id);
    if (!goes_on_)
      for (const auto& each : step_.gradients)
        out.release.push_back(each.id.worker);
    step_.gradients.front().weight = lower_;
    step_.rate_factor = 0.5;
    out.updates.push_back(std::exchange(step_, {}));
    current_ = current_.next();
    return out;
  }

  policies::decision on_pull(worker_id) override { return {}; }

  std::vector<worker_id> waiting_for() const override { return {}; }

  std::string state() const override {
    return "paired v=" + to_string(current_);
  }

private:
  double lower_;
  bool goes_on_;
  policies::update step_;
  version current_;
};

inline policies::policy_spec paired_spec(double lower) {
  policies::policy_spec out{"paired", 2};
  out.parameters.set("lower", std::to_string(lower));
  return out;
}

} // namespace troupe::test
