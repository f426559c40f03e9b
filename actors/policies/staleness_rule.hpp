#pragma once
// Rules about stale gradients, which any policy may be given. They weigh the
// gradients of its decisions, and scale the steps; who waits for whom stays the
// policy's.
//
// Made by `make_policy`; owned by the step scheduler. Pure; not thread-safe.

#include "actors/policies/policy.hpp"

#include <map>
#include <memory>

namespace troupe::policies {

/// A policy with a staleness rule.
///
/// - `polynomial`: a gradient of staleness s counts 1 / (1 + s)^power of what a
///   fresh one does. The step is the sum of the gradients, each times its
///   factor and its samples, divided by all samples: gradients that are all
///   stale make a smaller step (Xie et al. 2019, "Asynchronous Federated
///   Optimization", arXiv:1903.03934; with several gradients in a step: Nguyen
///   et al. 2022, "Federated Learning with Buffered Asynchronous Aggregation",
///   AISTATS).
/// - `delayed-nesterov`: only each N-th step uses the momentum; the others move
///   the weights along their gradients alone, which are added to it. Each step
///   has 1/N of the learning rate (Liu et al. 2024, "Asynchronous Local-SGD
///   Training for Language Modeling", arXiv:2401.09135, algorithm 3 with c =
///   0). Which step it is follows from the number of the version, so that a run
///   which goes on from a checkpoint continues as one that was not stopped.
class with_staleness_rule final : public policy {
public:
  with_staleness_rule(std::unique_ptr<policy> of, config::staleness_rule rule,
                      uint32_t workers);

  void reset(version v) override;
  version current() const override { return of_->current(); }
  void resize(uint32_t workers) override;
  decision on_join(std::span<const worker_id> who) override;
  decision on_leave(worker_id who) override;
  decision on_arrival(const arrival& push) override;
  decision on_pull(worker_id who) override;
  decision on_window_over(version v) override;
  std::vector<worker_id> waiting_for() const override {
    return of_->waiting_for();
  }
  std::string state() const override;

private:
  decision follow_rule(decision out);
  void scale_by_staleness(update& step, version makes) const;
  void delay_momentum(update& step, version makes) const;

  std::unique_ptr<policy> of_;
  config::staleness_rule rule_;
  uint32_t workers_;
  std::map<push_id, arrival> undecided_;
};

} // namespace troupe::policies
