// Leases that two workers have at a time.

#include "actors/core/step_scheduler.hpp"

#include <algorithm>

namespace troupe::cores {

// Leases that are to be dealt again may have been given back or settled.
bool step_scheduler::has_work() const {
  return ledger_.has_free() || std::ranges::any_of(again_, [this](lease_id id) {
           return ledger_.find(id) != nullptr;
         });
}

std::optional<lease> step_scheduler::grant_again(const member& to) {
  for (auto left = again_.size(); left > 0; --left) {
    auto id = again_.front();
    again_.pop_front();
    const auto* what = ledger_.find(id);
    if (what == nullptr)
      continue;
    if (std::ranges::count(to.leases, id) > 0) {
      again_.push_back(id); // Its own.
      continue;
    }
    twice_.insert(id);
    return *what;
  }
  return std::nullopt;
}

// A worker gives up a lease. Returns true if another worker has the lease, too,
// and keeps it alone; else the lease is free.
bool step_scheduler::left_to_other(lease_id id) {
  return twice_.erase(id) > 0;
}

// Returns whether any of these leases was taken from the worker.
bool step_scheduler::forget_taken(member& of, std::span<const lease_id> which) {
  return std::erase_if(of.taken, [which](const lease& one) {
           return std::ranges::count(which, one.id) > 0;
         }) > 0;
}

// Workers that compute leases which were taken from them will push or pull, and
// then rest.
bool step_scheduler::some_work_in_vain() const {
  return std::ranges::any_of(members_, [](const auto& entry) {
    return !entry.second.taken.empty() && entry.second.where == place::working;
  });
}

// A gradient has arrived: other workers' gradients of its leases will not
// count. Returns the workers that are computing such a gradient.
std::vector<worker_id>
step_scheduler::take_from_others(const push_facts& facts) {
  std::vector<worker_id> out;
  for (auto id : facts.from) {
    std::erase(again_, id);
    if (twice_.erase(id) == 0)
      continue;
    for (auto& [other, who] : members_) {
      auto computes = !who.leases.empty() && who.leases.front() == id &&
                      who.where == place::working;
      if (std::erase(who.leases, id) == 0)
        continue;
      auto untold = std::erase_if(
        who.to_send, [id](const lease& one) { return one.id == id; });
      if (untold == 0)
        who.taken.push_back(*ledger_.find(id));
      if (computes)
        out.push_back(other);
      if (who.where == place::released && who.leases.empty() &&
          rules_ >= policies::rules_at_rest) {
        who.where = place::resting;
        out_of_work_.push_back(other);
      }
    }
  }
  return out;
}

// Drops the gradient, since another worker's gradient of some of its samples
// has arrived before.
orders step_scheduler::drop_taken(const push_facts& facts) {
  auto& who = members_.at(facts.id.worker);
  who.where = place::working;
  who.asked = true;
  who.last = facts.id.seq;
  who.dropped = true;
  refusals_.sound(facts.id.worker);
  window_.done(facts.id);
  std::vector<lease_id> rest;
  for (auto id : facts.from)
    if (std::erase(who.leases, id) > 0)
      rest.push_back(id);
  orders out;
  out.drop.push_back(
    {facts.id, policy_->current().value - facts.computed_on.value});
  append(tell_or_postpone({postponed::kind::pull, facts.id.worker}), out);
  give_back_outlying(members_.at(facts.id.worker));
  for (auto id : rest)
    if (!left_to_other(id))
      ledger_.give_up(id);
  return with_rest(std::move(out));
}

} // namespace troupe::cores
