#include "actors/core/backoff.hpp"

#include "actors/policies/mutation.hpp"

#include <algorithm>

namespace troupe::cores {

backoff::backoff(const backoff_rules& rules, counter_random random, double now)
  : rules_(rules), random_(random), end_(rules.give_up, now),
    delay_(rules.first) {
  // nop
}

std::optional<double> backoff::next(double now) {
  if (failures_++ == 0 && waiting_)
    end_.progress(now);
  waiting_ = false;
  auto left = end_.left(now);
  constexpr double least = 1e-6; // Of less, a clock may see nothing pass.
  if (left < least || (mutation(bug::gives_up_at_once) && failures_ > 1))
    return std::nullopt;
  auto base = std::min(delay_, rules_.cap);
  delay_ = base * rules_.factor;
  return std::min(base * (1 - rules_.jitter * random_.uniform()), left);
}

void backoff::reset() {
  waiting_ = true;
  delay_ = rules_.first;
  failures_ = 0;
}

} // namespace troupe::cores
