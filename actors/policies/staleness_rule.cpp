#include "actors/policies/staleness_rule.hpp"

#include "config/text/value.hpp"

#include <cmath>
#include <utility>

namespace troupe::policies {

using config::staleness_rule_kind;

with_staleness_rule::with_staleness_rule(std::unique_ptr<policy> of,
                                         config::staleness_rule rule,
                                         uint32_t workers)
  : of_(std::move(of)), rule_(rule), workers_(workers) {
  // nop
}

void with_staleness_rule::reset(version v) {
  of_->reset(v);
  undecided_.clear();
}

void with_staleness_rule::resize(uint32_t workers) {
  workers_ = workers;
  of_->resize(workers);
}

decision with_staleness_rule::on_join(std::span<const worker_id> who) {
  return follow_rule(of_->on_join(who));
}

decision with_staleness_rule::on_leave(worker_id who) {
  return follow_rule(of_->on_leave(who));
}

decision with_staleness_rule::on_arrival(const arrival& push) {
  undecided_[push.id] = push;
  return follow_rule(of_->on_arrival(push));
}

decision with_staleness_rule::on_pull(worker_id who) {
  return follow_rule(of_->on_pull(who));
}

decision with_staleness_rule::on_window_over(version v) {
  return follow_rule(of_->on_window_over(v));
}

decision with_staleness_rule::follow_rule(decision out) {
  for (const auto& id : out.drop)
    undecided_.erase(id);
  version makes{of_->current().value - out.updates.size()};
  for (auto& step : out.updates) {
    makes = makes.next();
    if (rule_.kind == staleness_rule_kind::polynomial)
      scale_by_staleness(step, makes);
    else
      delay_momentum(step, makes);
    for (const auto& part : step.gradients)
      undecided_.erase(part.id);
  }
  return out;
}

void with_staleness_rule::scale_by_staleness(update& step,
                                             version makes) const {
  double all = 0;
  double counted = 0;
  for (auto& [id, weight] : step.gradients) {
    const auto& push = undecided_.at(id);
    auto staleness = makes.value - 1 - push.computed_on.value;
    auto share = weight * static_cast<double>(push.samples);
    auto factor = std::pow(1 + static_cast<double>(staleness), -rule_.power);
    all += share;
    counted += share * factor;
    weight *= factor;
  }
  if (all > 0)
    step.rate_factor *= counted / all;
}

void with_staleness_rule::delay_momentum(update& step, version makes) const {
  auto period = rule_.every > 0 ? rule_.every : uint64_t{workers_};
  auto place = (makes.value - 1) % period;
  step.momentum = {place == 0, place == period - 1};
  step.rate_factor /= static_cast<double>(period);
}

std::string with_staleness_rule::state() const {
  return of_->state() +
         (rule_.kind == staleness_rule_kind::polynomial
            ? " power=" + config::print(rule_.power)
            : " every=" + std::to_string(rule_.every)) +
         " undecided=" + std::to_string(undecided_.size());
}

} // namespace troupe::policies
