#include "tests/support/played_cluster.hpp"

#include <algorithm>
#include <stdexcept>
#include <utility>

namespace troupe::test {

played_cluster::played_cluster(const policies::policy_spec& spec,
                               uint64_t samples, uint64_t batch,
                               const cores::stop_limits& limits)
  : scheduler_(policies::make_policy(spec), cores::lease_ledger{samples, batch},
               cores::stop_rule{limits}, version{0}),
    samples_(samples), ends_(limits.epochs.has_value()) {
  // nop
}

played_cluster::played_cluster(cores::step_scheduler scheduler,
                               uint64_t samples)
  : scheduler_(std::move(scheduler)), samples_(samples) {
  // nop
}

// -- what workers do ----------------------------------------------------------

void played_cluster::enlist(worker_id who) {
  auto life = lives_[who] = lives_[who].next();
  scheduler_.enlist(who, life, {}, ahead);
  players_[who] = {};
  players_[who].life = life;
  players_[who].ahead = ahead;
}

void played_cluster::join(const std::vector<worker_id>& who) {
  for (auto id : who)
    players_.at(id).joined = true;
  carry_out(scheduler_.join(who));
}

void played_cluster::leave(worker_id who) {
  auto life = players_.at(who).life;
  players_.erase(who);
  carry_out(scheduler_.leave(who, life));
  if (scheduler_.knows(who, life))
    fail("knows one who left");
}

void played_cluster::pull(worker_id who) {
  players_.at(who).asked = true;
  carry_out(scheduler_.pull(who));
}

void played_cluster::finish(worker_id who) {
  auto& player = players_.at(who);
  player.asked = true;
  if (std::exchange(player.cancelled, false)) {
    auto done = std::exchange(player.computes, std::nullopt).value();
    return carry_out(scheduler_.pull(who, {&done.id, 1}));
  }
  auto from = take_work(player);
  auto id = next_push(who);
  held_[id] = {from, player.reads};
  player.dropped = false;
  cores::push_facts facts{id, player.reads, {}, 0};
  for (const auto& one : from) {
    facts.from.push_back(one.id);
    facts.samples += one.count;
  }
  if (!scheduler_.holds(who, facts.from, facts.samples))
    fail("does not know the leases of a gradient");
  carry_out(scheduler_.push(facts));
}

void played_cluster::deal_again(worker_id who) {
  carry_out(scheduler_.deal_again(who, players_.at(who).life));
}

void played_cluster::follow(const policies::policy_spec& spec) {
  std::map<worker_id, std::optional<lease>> before;
  for (const auto& [who, player] : players_)
    before[who] = player.computes;
  auto held = held_.size();
  auto decided = scheduler_.follow(policies::make_policy(spec));
  if (!decided.drop.empty() || !decided.cancel.empty() ||
      decided.updates.size() != (held > 0 ? 1 : 0) ||
      (held > 0 && decided.updates.front().gradients.size() != held))
    fail("a change of the policy does more than one step of what is held");
  carry_out(decided);
  for (const auto& [who, its] : before)
    if (its && players_.at(who).computes != its)
      fail("a change of the policy disturbs a computation");
}

/// Takes the lease that the worker computes, and some of those that come next.
std::vector<lease> played_cluster::take_work(player& from) {
  std::vector<lease> out{std::exchange(from.computes, std::nullopt).value()};
  auto more =
    from.ahead == cores::leases_ahead ? 0 : (from.last.value * 7) % from.ahead;
  for (; more > 0 && !from.work.empty(); --more) {
    out.push_back(from.work.front());
    from.work.pop_front();
  }
  return out;
}

bool played_cluster::push_bad(worker_id who) {
  auto& player = players_.at(who);
  player.cancelled = false;
  cores::push_facts facts{next_push(who), player.reads, {}};
  for (const auto& one : take_work(player))
    facts.from.push_back(one.id);
  if (scheduler_.refuse(facts))
    return true;
  pull(who);
  return false;
}

void played_cluster::push_again(worker_id who) {
  const auto& player = players_.at(who);
  if (player.last.value != 0 &&
      scheduler_.admit({who, player.life, player.last}) ==
        cores::freshness::fresh)
    fail("takes a push for fresh that it has seen");
}

void played_cluster::push_stale(worker_id who) {
  life_number earlier{players_.at(who).life.value - 1};
  if (scheduler_.admit({who, earlier, sequence{1}}) !=
      cores::freshness::stale_incarnation)
    fail("admits an earlier life");
}

// -- properties -------------------------------------------------------------

bool played_cluster::computing(worker_id who) const {
  return players_.at(who).computes.has_value();
}

bool played_cluster::idle(worker_id who) const {
  return !computing(who) && !players_.at(who).asked;
}

std::vector<worker_id> played_cluster::everybody() const {
  std::vector<worker_id> out;
  for (const auto& [who, player] : players_)
    out.push_back(who);
  return out;
}

lease played_cluster::current_lease(worker_id who) const {
  return players_.at(who).computes.value();
}

void played_cluster::check_ledger() const {
  const auto& ledger = scheduler_.ledger();
  if (ledger.settled() != applied_)
    fail("settled " + std::to_string(ledger.settled()) + " samples, applied " +
         std::to_string(applied_));
  for (const auto& [id, push] : held_)
    for (const auto& one : push.from)
      if (ledger.find(one.id) == nullptr)
        fail("a lease of a held gradient is not out: " + to_string(id));
  for (const auto& [who, player] : players_) {
    if (player.computes && scheduler_.find(who, player.computes->id) == nullptr)
      fail("the lease of a computation is not out");
    for (const auto& next : player.work)
      if (scheduler_.find(who, next.id) == nullptr)
        fail("the next lease of a worker is not out");
  }
  for (uint64_t epoch = 0; epoch < ledger.epochs_completed(); ++epoch)
    if (auto found = covered_.find(epoch);
        found == covered_.end() ||
        std::ranges::count(found->second, false) != 0)
      fail("an epoch is complete without all of its samples");
}

// -- orders -------------------------------------------------------------------

push_id played_cluster::next_push(worker_id who) {
  auto& player = players_.at(who);
  player.last = player.last.next();
  push_id id{who, player.life, player.last};
  if (scheduler_.admit(id) != cores::freshness::fresh)
    fail("does not admit a fresh push");
  return id;
}

void played_cluster::carry_out(const cores::orders& decided) {
  if (stopped_)
    throw std::logic_error("the test goes on after the end");
  check_members(decided);
  auto now = drops_within_steps ? scheduler_.current() : made_;
  for (const auto& late : decided.drop)
    drop(late, now);
  for (const auto& step : decided.updates)
    apply(step);
  if (decided.stop) {
    if (decided.updates.empty() || !decided.release.empty() ||
        !decided.cancel.empty())
      fail("stops without an update, or goes on after it");
    stopped_ = decided.stop;
    return;
  }
  if (made_ != scheduler_.current())
    fail("has another version than it ordered");
  for (const auto& next : decided.release)
    release(next);
  for (auto who : decided.cancel) {
    // A worker that was released but has not asked yet has nothing to give up.
    if (!joined(who) || players_.at(who).asked)
      fail("cancels one that waits");
    players_.at(who).cancelled = computing(who);
  }
}

void played_cluster::check_members(const cores::orders& decided) const {
  if (fewest_ == 0) {
    if (decided.members)
      fail("counts workers whose number does not vary");
    return;
  }
  auto there = scheduler_.members();
  auto does_something = !decided.drop.empty() || !decided.updates.empty() ||
                        !decided.release.empty();
  if (does_something && there < fewest_)
    fail("goes on with " + std::to_string(there) + " workers");
  if (decided.members && (decided.members->count != there ||
                          decided.members->paused != (there < fewest_)))
    fail("tells a wrong number of workers");
  for (const auto& step : decided.updates)
    if (step.members != there)
      fail("makes a step for another number of workers than there is");
}

void played_cluster::drop(const cores::dropped_push& push, version now) {
  auto late = held_.extract(push.id).mapped();
  auto least = fewest_ > 0 ? made_ : now;
  auto most = fewest_ > 0 ? scheduler_.current() : now;
  auto of = late.computed_on.value;
  if (push.staleness < least.value - of || push.staleness > most.value - of)
    fail("tells a wrong staleness of a late gradient");
  ++dropped_;
  if (auto who = players_.find(push.id.worker);
      who != players_.end() && who->second.life == push.id.life &&
      who->second.last == push.id.seq)
    who->second.dropped = true;
}

void played_cluster::apply(const cores::update_order& order) {
  if (stopped_)
    fail("an update after the end");
  if (order.makes != made_.next() || order.gradients.empty())
    fail("an update without a gradient or with a wrong number");
  auto& step = steps_.emplace_back();
  step.makes = order.makes;
  for (const auto& part : order.gradients) {
    auto found = held_.find(part.id);
    if (found == held_.end())
      fail("applies what is not held: " + to_string(part.id));
    if (part.staleness != made_.value - found->second.computed_on.value)
      fail("tells a wrong staleness");
    for (const auto& one : found->second.from) {
      cover(one);
      step.leases.push_back(one);
    }
    held_.erase(found);
  }
  made_ = order.makes;
}

void played_cluster::cover(const lease& work) {
  auto& positions = covered_[work.epoch];
  positions.resize(samples_);
  for (auto i = work.first; i < work.first + work.count; ++i) {
    if (positions.at(i))
      fail("a sample counts twice");
    positions[i] = true;
  }
  applied_ += work.count;
}

void played_cluster::release(const cores::release_order& order) {
  if (!players_.contains(order.worker))
    fail("releases a stranger");
  auto& player = players_.at(order.worker);
  if (!player.asked || !player.joined)
    fail("releases one that did not ask");
  player.asked = false;
  ++player.answers;
  player.reads = made_;
  player.work.insert(player.work.end(), order.leases.begin(),
                     order.leases.end());
  auto fewer = ends_ && !player.work.empty();
  // Another worker's gradient of it has arrived.
  auto is_held = [this](const lease& one) {
    return std::ranges::any_of(held_, [&](const auto& entry) {
      return std::ranges::count(entry.second.from, one) > 0;
    });
  };
  auto counting = static_cast<size_t>(
    std::ranges::count_if(player.work, [&](const lease& one) {
      return scheduler_.ledger().find(one.id) != nullptr && !is_held(one);
    }));
  if (counting > player.ahead || (player.work.size() < player.ahead && !fewer))
    fail("a worker has " + std::to_string(player.work.size()) + " leases");
  if (order.dropped != std::exchange(player.dropped, false))
    fail("does not tell a worker what became of its gradient");
  player.computes = player.work.front();
  player.work.pop_front();
}

void played_cluster::fail(const std::string& why) const {
  throw std::logic_error(why + "; now: " + scheduler_.policy().state());
}

} // namespace troupe::test
