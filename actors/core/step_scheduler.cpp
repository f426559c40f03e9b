#include "actors/core/step_scheduler.hpp"

#include "actors/policies/mutation.hpp"

#include <algorithm>
#include <stdexcept>
#include <utility>

namespace troupe::cores {

void append(orders more, orders& out) {
  auto add = [](auto& to, auto& from) {
    to.insert(to.end(), from.begin(), from.end());
  };
  if (more.members)
    out.members = more.members;
  add(out.drop, more.drop);
  add(out.updates, more.updates);
  add(out.release, more.release);
  add(out.cancel, more.cancel);
  if (more.window)
    out.window = more.window;
  out.stop = std::move(more.stop);
}

step_scheduler::step_scheduler(std::unique_ptr<policies::policy> policy,
                               data_ledger ledger, stop_rule stop,
                               version start, life_number server)
  : policy_(std::move(policy)), ledger_(std::move(ledger)), stop_(stop),
    current_(start), server_(server) {
  policy_->reset(start);
  ledger_.end_before(stop_.epochs());
}

standing step_scheduler::look_at(worker_id who, life_number life,
                                 life_number server) const {
  if (server != server_ && !mutation(bug::earlier_server))
    return standing::earlier_server;
  return knows(who, life) ? standing::welcome : standing::stranger;
}

void step_scheduler::enlist(worker_id who, life_number life,
                            const owned_data& data, uint32_t ahead) {
  if (data.samples > 0 && ledger_.has_parts())
    ledger_.own(who, data);
  window_.set_life(who, life);
  member fresh;
  fresh.life = life;
  fresh.ahead = std::clamp(ahead, uint32_t{1}, most_leases_ahead);
  auto& known = members_[who];
  joined_ -= known.where != place::enlisted;
  std::erase(entering_, who);
  known = std::move(fresh);
  if (turns_)
    turns_->begin(who);
}

orders step_scheduler::join(std::span<const worker_id> who) {
  for (auto id : who) {
    auto found = members_.find(id);
    if (found == members_.end() || found->second.where != place::enlisted)
      continue;
    found->second.where = place::entering;
    ++joined_;
    entering_.push_back(id);
  }
  orders out;
  count_members(out);
  if (!paused_)
    go_on(out);
  return with_rest(std::move(out));
}

orders step_scheduler::leave(worker_id who, life_number life) {
  if (!knows(who, life))
    return {};
  auto gone = std::move(members_.at(who));
  members_.erase(who);
  for (auto id : gone.leases)
    if (!mutation(bug::lease_kept_on_leave) && !left_to_other(id))
      ledger_.give_back(id);
  give_back_outlying(gone);
  ledger_.leave(who);
  std::erase(resting_, who);
  window_.forget(who);
  refusals_.forget(who);
  if (norms_)
    norms_->forget(who);
  if (pace_)
    pace_->forget(who);
  if (turns_)
    turns_->leave(who);
  if (gone.where == place::enlisted)
    return {};
  --joined_;
  orders out;
  count_members(out);
  if (std::erase(entering_, who) == 0)
    append(tell_or_postpone({postponed::kind::leave, who}), out);
  return with_rest(std::move(out));
}

freshness step_scheduler::admit(const push_id& id) {
  return window_.admit(id);
}

bool step_scheduler::is_fresh(const push_id& id) const {
  return window_.look_at(id) == freshness::fresh;
}

orders step_scheduler::push(const push_facts& facts) {
  constexpr sequence first{1}; // Its time has what is done once: compiling.
  if (pace_ && facts.id.seq > first)
    pace_->note(facts.id.worker, facts.from.size(), facts.seconds);
  auto& who = members_.at(facts.id.worker);
  if (forget_taken(who, facts.from))
    return drop_taken(facts);
  if (turns_)
    turns_->pushed(facts.id.worker);
  who.where = place::held;
  who.asked = true;
  who.last = facts.id.seq;
  who.dropped = false;
  for (auto id : facts.from)
    std::erase(who.leases, id);
  refusals_.sound(facts.id.worker);
  held_[facts.id] = {facts.computed_on, facts.from, facts.samples};
  held_leases_ += facts.from.size();
  auto in_vain = take_from_others(facts);
  auto out = tell_or_postpone({postponed::kind::arrival,
                               facts.id.worker,
                               {facts.id, facts.computed_on, facts.samples}});
  give_back_outlying(members_.at(facts.id.worker));
  for (auto one : in_vain)
    if (!out.stop && std::ranges::count(out.cancel, one) == 0)
      out.cancel.push_back(one);
  return with_rest(std::move(out));
}

bool step_scheduler::refuse(const push_facts& facts) {
  auto& who = members_.at(facts.id.worker);
  forget_taken(who, facts.from);
  for (auto id : facts.from)
    give_back(who, id);
  window_.done(facts.id);
  return refusals_.refused(facts.id.worker);
}

bool step_scheduler::refuse_outlier(const push_facts& facts) {
  auto& who = members_.at(facts.id.worker);
  for (auto id : facts.from) {
    if (std::erase(who.leases, id) == 0 || left_to_other(id))
      continue;
    std::erase(again_, id); // It is free soon.
    who.outlying.push_back(id);
  }
  return refuse(facts);
}

orders step_scheduler::pull(worker_id who,
                            std::span<const lease_id> abandoned) {
  auto& asking = members_.at(who);
  asking.asked = true;
  if (turns_)
    turns_->asks_anew(who);
  switch (asking.where) {
  case place::working:
  case place::released: {
    std::vector<lease_id> late;
    for (auto id : abandoned) {
      auto is_its = std::erase(asking.leases, id) != 0;
      // While the run pauses a gradient of the other worker may come.
      if (is_its && !(paused_ && left_to_other(id)))
        late.push_back(id);
    }
    forget_taken(asking, abandoned);
    return with_rest(
      tell_or_postpone({postponed::kind::pull, who, {}, std::move(late)}));
  }
  default: // A later decision releases it.
    return {};
  }
}

std::vector<worker_id> step_scheduler::awaited() const {
  std::vector<worker_id> out;
  if (resting_.empty() || has_work())
    return out;
  for (const auto& [id, who] : members_)
    if (std::ranges::any_of(
          who.leases, [this](lease_id one) { return !twice_.contains(one); }))
      out.push_back(id);
  return out;
}

orders step_scheduler::deal_again(worker_id who, life_number life) {
  if (knows(who, life))
    for (auto id : members_.at(who).leases)
      if (!twice_.contains(id) && std::ranges::count(again_, id) == 0)
        again_.push_back(id);
  return with_rest({});
}

orders step_scheduler::window_over(version at) {
  window_at_.reset();
  return with_rest(
    tell_or_postpone({.what = postponed::kind::window, .window = at}));
}

std::optional<std::string>
step_scheduler::scored(const config::metrics& found) {
  if (stop_.scored(found) == stop_reason::none)
    return std::nullopt;
  return stop_.line();
}

std::optional<std::string> step_scheduler::reached() {
  return end_after(current());
}

bool step_scheduler::knows(worker_id who, life_number life) const {
  auto found = members_.find(who);
  return found != members_.end() &&
         (found->second.life == life || mutation(bug::stale_incarnation));
}

bool step_scheduler::holds(worker_id who, std::span<const lease_id> ids,
                           uint64_t samples) const {
  if (mutation(bug::deduplication_off) || mutation(bug::stale_incarnation))
    return true;
  uint64_t all = 0;
  for (auto id : ids) {
    const auto* what = find(who, id);
    if (what == nullptr || std::ranges::count(ids, id) > 1)
      return false;
    all += what->count;
  }
  return all == samples;
}

const lease* step_scheduler::find(worker_id who, lease_id id) const {
  const auto& it = members_.at(who);
  if (std::ranges::count(it.leases, id) > 0)
    return ledger_.find(id);
  auto taken = std::ranges::find(it.taken, id, &lease::id);
  return taken == it.taken.end() ? nullptr : &*taken;
}

// The samples of late gradients are given back only after the releases.
// Otherwise a worker that is always late would get the same samples again and
// again, and the epoch would never end.
orders step_scheduler::carry_out(policies::decision decision) {
  orders out;
  std::vector<lease_id> late;
  auto drop_late = [&](const push_id& id) {
    auto from = drop(id, out);
    late.insert(late.end(), from.begin(), from.end());
  };
  for (const auto& id : decision.drop)
    drop_late(id);
  for (const auto& step : decision.updates)
    for (const auto& [id, weight] : step.gradients)
      if (weight == 0)
        drop_late(id);
  auto makes = current_;
  for (const auto& step : decision.updates) {
    makes = makes.next();
    if (mutation(bug::version_skipped) && makes.value % 8 == 0)
      makes = makes.next();
    out.updates.push_back(apply(step, makes));
    current_ = makes;
    if (out.stop = end_after(makes); out.stop)
      break;
  }
  if (!out.stop) {
    release(decision.release, out);
    out.cancel = std::move(decision.cancel);
    if (decision.window) {
      window_at_ = policy_->current();
      out.window = window_order{*window_at_, *decision.window};
    }
  }
  for (auto id : late)
    if (mutation(bug::lease_settled_unapplied))
      ledger_.settle(id);
    else if (!mutation(bug::lease_kept_on_drop) && !left_to_other(id))
      ledger_.give_up(id);
  return out;
}

// The loop comes to an end, because a worker that wakes takes a lease or waits
// for the policy. When nobody is left who will push, the gradients that the
// policy holds are too few for a step: it gets more from a further epoch.
orders step_scheduler::with_rest(orders out) {
  while (!out.stop && !paused_) {
    if (!out_of_work_.empty()) {
      auto who = out_of_work_.back();
      out_of_work_.pop_back();
      resting_.push_back(who);
      append(carry_out(policy_->on_leave(who)), out);
    } else if (resting_.empty()) {
      break;
    } else if (has_work()) {
      auto who = std::exchange(resting_, {});
      for (auto id : who)
        members_.at(id).where = place::waiting;
      append(carry_out(policy_->on_join(who)), out);
    } else if (ledger_.outstanding() == held_leases_ && !some_work_in_vain()) {
      ledger_.end_before(std::nullopt);
    } else {
      break;
    }
  }
  return out;
}

// Returns the leases; the caller gives them back later.
std::vector<lease_id> step_scheduler::drop(const push_id& id, orders& out) {
  auto gone = held_.extract(id).mapped();
  held_leases_ -= gone.from.size();
  if (auto its = members_.find(id.worker); its != members_.end()) {
    auto& who = its->second;
    who.dropped = who.dropped || (who.life == id.life && who.last == id.seq);
  }
  out.drop.push_back({id, policy_->current().value - gone.computed_on.value});
  window_.done(id);
  return gone.from;
}

update_order step_scheduler::apply(const policies::update& step,
                                   version makes) {
  update_order out{makes, {}, step.rate_factor, step.momentum, counted_};
  for (const auto& [id, weight] : step.gradients) {
    if (weight == 0)
      continue;
    auto part = held_.extract(id).mapped();
    out.gradients.push_back(
      {id, makes.value - 1 - part.computed_on.value, weight});
    held_leases_ -= part.from.size();
    for (auto from : part.from)
      ledger_.settle(from);
    window_.done(id);
    if (turns_)
      turns_->applied(id.worker, part.samples, knows(id.worker, id.life));
  }
  if (out.gradients.empty())
    throw std::logic_error("the policy makes version " + to_string(makes) +
                           " of no gradient");
  if (mutation(bug::update_lost) && out.gradients.size() > 1)
    out.gradients.pop_back();
  return out;
}

std::optional<std::string> step_scheduler::end_after(version made) {
  if (stop_.updated(made.value, ledger_.epochs_completed()) ==
      stop_reason::none)
    return std::nullopt;
  return stop_.line();
}

void step_scheduler::release(std::span<const worker_id> who, orders& out) {
  grant(who);
  for (auto id : who) {
    auto found = members_.find(id);
    if (found == members_.end() || !is_in_policy(found->second))
      continue;
    if (found->second.leases.empty()) {
      give_back_outlying(found->second);
      found->second.where = place::resting;
      out_of_work_.push_back(id);
      continue;
    }
    if (!found->second.asked) {
      found->second.where = place::released;
      continue;
    }
    window_.answered(id);
    out.release.push_back(hand_over(id, found->second));
  }
}

// Grants leases in rounds, so that the first step of a cluster has the first
// samples, and each worker's second lease belongs to the next step.
void step_scheduler::grant(std::span<const worker_id> who) {
  struct wish {
    worker_id id;
    member* of;
    uint32_t leases;
  };

  std::vector<wish> all;
  uint32_t rounds = 0;
  for (auto id : who)
    if (auto found = members_.find(id);
        found != members_.end() && is_in_policy(found->second)) {
      all.push_back({id, &found->second, ahead_of(id, found->second)});
      rounds = std::max(rounds, all.back().leases);
    }
  for (uint32_t round = 1; round <= rounds; ++round) {
    for (auto& [id, to, leases] : all) {
      if (round > leases || to->leases.size() >= round)
        continue;
      auto work = ledger_.grant(id, to->batch);
      if (!work)
        work = grant_again(*to);
      if (work) {
        to->leases.push_back(work->id);
        to->to_send.push_back(*work);
      }
    }
  }
}

// A worker with fewer steps has fewer leases to begin a round with, in the same
// proportion, and so leaves more to others where an epoch ends.
uint32_t step_scheduler::ahead_of(worker_id id, const member& who) const {
  if (!pace_)
    return who.ahead;
  auto all = pace_->most();
  return (who.ahead * pace_->steps_of(id) + all - 1) / all;
}

release_order step_scheduler::hand_over(worker_id id, member& who) {
  who.where = place::working;
  who.asked = false;
  release_order out{id, std::exchange(who.to_send, {}),
                    std::exchange(who.dropped, false)};
  if (pace_)
    out.steps = pace_->steps_of(id);
  if (turns_)
    out.turn = turns_->release(
      id, current_, out.dropped && !mutation(bug::fragment_after_drop));
  return out;
}

void step_scheduler::give_back(member& who, lease_id id) {
  if (std::erase(who.leases, id) != 0 && !left_to_other(id))
    ledger_.give_back(id);
}

void step_scheduler::give_back_outlying(member& who) {
  for (auto id : std::exchange(who.outlying, {}))
    ledger_.give_back(id);
}

} // namespace troupe::cores
