// A number of workers that varies.

#include "actors/core/step_scheduler.hpp"
#include "actors/policies/mutation.hpp"

#include <algorithm>
#include <utility>

namespace troupe::cores {

// What is decided from now on is decided for so many. While the run pauses,
// nothing is.
void step_scheduler::count_members(orders& out) {
  if (!limits_)
    return;
  paused_ = joined_ < limits_->fewest && !mutation(bug::pause_ignored);
  out.members = members_order{static_cast<uint32_t>(joined_), paused_};
  if (paused_ || joined_ == 0)
    return;
  counted_ = static_cast<uint32_t>(joined_);
  policy_->resize(counted_);
  share_out_batch();
}

// Leases that are out keep their size.
void step_scheduler::share_out_batch() {
  if (limits_->global_batch == 0)
    return;
  auto share = limits_->global_batch / joined_;
  auto rest = limits_->global_batch % joined_;
  for (auto& [id, who] : members_)
    if (who.where != place::enlisted) {
      who.batch = std::max<uint64_t>(1, share + (rest > 0));
      rest -= rest > 0;
    }
}

orders step_scheduler::tell_policy(const postponed& input) {
  switch (input.what) {
  case postponed::kind::arrival:
    return carry_out(policy_->on_arrival(input.push));
  case postponed::kind::leave:
    return carry_out(policy_->on_leave(input.who));
  case postponed::kind::window:
    return input.window == policy_->current()
             ? carry_out(policy_->on_window_over(input.window))
             : orders{};
  default:
    break;
  }
  auto out = carry_out(policy_->on_pull(input.who));
  for (auto id : input.abandoned)
    if (!left_to_other(id))
      ledger_.give_up(id);
  return out;
}

orders step_scheduler::tell_or_postpone(const postponed& input) {
  if (!paused_)
    return tell_policy(input);
  postponed_.push_back(input);
  return {};
}

// A worker may have left meanwhile, and be back in another life: the policy
// hears of that after all that it did before.
void step_scheduler::go_on(orders& out) {
  for (const auto& input : std::exchange(postponed_, {})) {
    append(tell_policy(input), out);
    if (out.stop)
      return;
  }
  auto who = std::exchange(entering_, {});
  for (auto id : who) {
    members_.at(id).where = place::waiting;
    ledger_.enter(id);
  }
  append(carry_out(policy_->on_join(who)), out);
}

} // namespace troupe::cores
