#include "actors/core/stop_rule.hpp"

namespace troupe::cores {

stop_rule::stop_rule(const stop_limits& limits) : limits_(limits) {
  // nop
}

stop_reason stop_rule::updated(uint64_t steps, uint64_t epochs_completed) {
  if (reason_ != stop_reason::none)
    return reason_;
  if (limits_.epochs && epochs_completed >= *limits_.epochs)
    reason_ = stop_reason::epochs;
  else if (limits_.max_steps && steps >= *limits_.max_steps)
    reason_ = stop_reason::max_steps;
  return reason_;
}

stop_reason stop_rule::scored(const config::metrics& found) {
  if (reason_ == stop_reason::none && limits_.target &&
      limits_.target->is_reached(found))
    reason_ = stop_reason::target;
  return reason_;
}

std::string stop_rule::line() const {
  switch (reason_) {
  case stop_reason::none:
    return {};
  case stop_reason::epochs:
    return "reached epochs = " + std::to_string(*limits_.epochs);
  case stop_reason::max_steps:
    return "reached max-steps = " + std::to_string(*limits_.max_steps);
  case stop_reason::target:
    return "reached " + to_string(*limits_.target);
  }
  return {};
}

} // namespace troupe::cores
