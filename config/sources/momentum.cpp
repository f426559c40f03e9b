#include "config/sources/momentum.hpp"

#include "config/schema/policies.hpp"
#include "config/values/staleness_rule.hpp"

#include <algorithm>
#include <cmath>

namespace troupe::config {

namespace {

/// Where the number of workers varies, the momentum of the fewest, which is the
/// largest: by it the optimiser knows whether it has to keep one.
void fill_in_usual(settings& all) {
  const auto& usual = facts_of(all.policy).momentum;
  if (!usual)
    return;
  auto varies = all.cluster.is_elastic();
  all.training.momentum =
    usual(varies ? all.cluster.fewest_workers() : all.cluster.workers);
  if (varies && !all.training.momentum_by_workers)
    all.training.momentum_by_workers = true;
}

/// With local steps the optimiser of the server is an outer one. Without a
/// barrier it has no momentum, which would be that of all workers together.
void fill_in_outer(resolved& all) {
  auto& training = all.values.training;
  if (training.local_steps.most == 0)
    return;
  if (all.is_default("training.lr") && training.optimizer == "sgd")
    training.lr = default_outer_lr;
  if (all.is_default("training.momentum") &&
      facts_of(all.values.policy).momentum)
    training.momentum = 0;
  if (all.is_default("training.nesterov"))
    training.nesterov = training.optimizer == "sgd" && training.momentum > 0;
}

/// A rule that is about Nesterov's momentum comes with one.
void fill_in_delayed_nesterov(resolved& all) {
  auto& training = all.values.training;
  if (parse_staleness_rule(all.values.policy.staleness_rule).kind !=
      staleness_rule_kind::delayed_nesterov)
    return;
  if (all.is_default("training.momentum"))
    training.momentum = training_settings{}.momentum;
  if (all.is_default("training.nesterov"))
    training.nesterov = true;
}

} // namespace

double asynchronous_momentum(uint32_t workers) {
  auto missing = training_settings{}.momentum - (1 - 1.0 / workers);
  return std::max(0.0, std::floor(100 * missing + 1e-6) / 100);
}

void fill_in_momentum(resolved& all) {
  if (all.is_default("training.momentum") &&
      all.values.training.local_steps.most == 0)
    fill_in_usual(all.values);
  fill_in_outer(all);
  fill_in_delayed_nesterov(all);
}

settings with_usual_momentum(settings of) {
  resolved out;
  out.values = of;
  out.values.training.momentum = training_settings{}.momentum;
  out.values.training.momentum_by_workers.reset();
  fill_in_momentum(out);
  const auto& found = out.values.training;
  of.training.momentum = found.momentum;
  of.training.momentum_by_workers = found.momentum_by_workers;
  of.training.nesterov = of.training.nesterov && found.momentum > 0;
  return of;
}

} // namespace troupe::config
