// A fence between two policies.

#include "actors/core/step_scheduler.hpp"
#include "actors/policies/mutation.hpp"
#include "config/text/failure.hpp"

#include <algorithm>
#include <utility>

namespace troupe::cores {

// Who computes is released to the new policy, but goes on with the weights and
// the leases that it has. All others are answered by what that policy decides.
orders step_scheduler::follow(std::unique_ptr<policies::policy> next) {
  auto last = all_held();
  auto who = members_in_policy();
  auto begins = last.gradients.empty() ? current_ : current_.next();
  next->reset(begins);
  if (counted_ > 0)
    next->resize(counted_);
  auto first = next->on_join(who);
  std::vector<worker_id> computing;
  for (auto id : who)
    if (members_.at(id).where == place::working)
      computing.push_back(id);
  for (auto id : computing)
    if (std::erase(first.release, id) == 0)
      throw run_error("it does not let all workers begin at once, so that it "
                      "cannot take over while they compute");
  orders out;
  if (!last.gradients.empty()) {
    out.updates.push_back(apply(last, begins));
    current_ = begins;
    out.stop = end_after(begins);
  }
  policy_ = std::move(next);
  window_at_.reset();
  if (out.stop)
    return out;
  for (auto id : who)
    if (auto& member = members_.at(id); member.where != place::working)
      member.where = place::waiting;
  append(carry_out(std::move(first)), out);
  return with_rest(std::move(out));
}

policies::update step_scheduler::all_held() const {
  policies::update out;
  if (mutation(bug::held_forgotten))
    return out;
  for (const auto& [id, push] : held_)
    out.gradients.push_back({id});
  std::ranges::sort(out.gradients, {}, &policies::part::id);
  return out;
}

// Those that rest are in no policy.
std::vector<worker_id> step_scheduler::members_in_policy() const {
  std::vector<worker_id> out;
  for (const auto& [id, member] : members_)
    if (is_in_policy(member) && member.where != place::resting)
      out.push_back(id);
  return out;
}

} // namespace troupe::cores
