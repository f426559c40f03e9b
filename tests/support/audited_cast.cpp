#include "tests/support/audited_cast.hpp"

#include <algorithm>
#include <stdexcept>

namespace troupe::test {

using policies::decision;

namespace {

template <class Ids, class Name>
void add(std::string& line, const char* verb, const Ids& ids, Name name) {
  if (ids.empty())
    return;
  line += line.empty() ? "" : ", ";
  line += verb;
  for (auto& x : ids)
    line += " " + to_string(name(x));
}

template <class T>
bool strictly_rising(const std::vector<T>& xs) {
  return std::adjacent_find(xs.begin(), xs.end(), std::greater_equal<T>{}) ==
         xs.end();
}

} // namespace

std::string text(const decision& what) {
  auto worker_of = [](const push_id& x) {
    return x.worker;
  };
  auto same = [](worker_id x) {
    return x;
  };
  std::string line;
  add(line, "drop", what.drop, worker_of);
  for (auto& update : what.updates)
    add(line, "update", update, worker_of);
  add(line, "release", what.release, same);
  add(line, "cancel", what.cancel, same);
  return line;
}

audited_cast::audited_cast(const policies::policy_spec& spec)
  : policy_(policies::make_policy(spec)), spec_(spec) {
  policy_->reset(version{0});
}

// -- events -------------------------------------------------------------------

decision audited_cast::join(std::vector<worker_id> who) {
  std::string line = "join";
  for (auto id : who) {
    auto& life = lives_[id];
    life = life.next();
    members_[id] = member{};
    members_[id].life = life;
    line += " " + to_string(id);
  }
  joins_ += who.size();
  return feed(line, [&](policies::policy& x) { return x.on_join(who); });
}

decision audited_cast::leave(worker_id who) {
  members_.erase(who);
  return feed("leave " + to_string(who),
              [&](policies::policy& x) { return x.on_leave(who); });
}

decision audited_cast::push(worker_id who) {
  auto& m = members_.at(who);
  m.now = state::held;
  push_id id{who, m.life, sequence{++m.pushes}};
  pending_.insert(id);
  gradients_[id] = {m.reads,
                    m.members_at_release + joins_ - m.joins_at_release};
  policies::arrival what{id, m.reads};
  return feed("push " + to_string(id) + " of v" + to_string(m.reads),
              [&](policies::policy& x) { return x.on_arrival(what); });
}

decision audited_cast::pull(worker_id who) {
  members_.at(who).now = state::waiting;
  return feed("pull " + to_string(who),
              [&](policies::policy& x) { return x.on_pull(who); });
}

void audited_cast::add_twins() {
  twins_.clear();
  twins_.push_back(policy_->clone());
  twins_.push_back(policies::make_policy(spec_));
  if (!twins_.back()->load(policy_->save()))
    fail("cannot load what it saved: " + policy_->save());
  bystander_ = policy_->clone();
  bystander_state_ = policy_->save();
}

template <class Event>
decision audited_cast::feed(const std::string& what, Event event) {
  event_ = what;
  auto result = event(*policy_);
  for (auto& twin : twins_)
    if (event(*twin) != result)
      fail("a copy decides otherwise: " + twin->describe());
  event_ += " -> " + text(result);
  check(result);
  check_progress();
  check_texts();
  return result;
}

// -- properties ---------------------------------------------------------------

std::vector<worker_id> audited_cast::computing() const {
  std::vector<worker_id> result;
  for (auto& [who, m] : members_)
    if (m.now == state::computing)
      result.push_back(who);
  return result;
}

std::vector<worker_id> audited_cast::cancelled() const {
  std::vector<worker_id> result;
  for (auto& [who, m] : members_)
    if (m.now == state::computing && m.cancelled)
      result.push_back(who);
  return result;
}

// -- the audit ----------------------------------------------------------------

void audited_cast::check(const decision& what) {
  for (auto& id : what.drop)
    if (pending_.erase(id) == 0)
      fail("drops what is not pending: " + to_string(id));
  check_updates(what);
  if (policy_->current() != version{steps_})
    fail("counts versions wrongly, must be " + std::to_string(steps_));
  if (!strictly_rising(what.release) || !strictly_rising(what.cancel))
    fail("workers are not in order");
  for (auto who : what.cancel) {
    auto i = members_.find(who);
    if (i == members_.end() || i->second.now != state::computing ||
        i->second.cancelled)
      fail("cancels one that has nothing to stop: " + to_string(who));
    i->second.cancelled = true;
  }
  for (auto who : what.release) {
    auto i = members_.find(who);
    if (i == members_.end() || i->second.now == state::computing)
      fail("releases one that does not wait: " + to_string(who));
    auto& m = i->second;
    m.now = state::computing;
    m.cancelled = false;
    m.reads = policy_->current();
    m.members_at_release = members_.size();
    m.joins_at_release = joins_;
  }
}

void audited_cast::check_updates(const decision& what) {
  for (auto& update : what.updates) {
    if (update.empty() || !strictly_rising(update))
      fail("an update is empty or not in order");
    for (auto& id : update) {
      if (pending_.erase(id) == 0)
        fail("applies what is not pending: " + to_string(id));
      auto& g = gradients_.at(id);
      auto members = static_cast<uint32_t>(g.members_meanwhile);
      if (steps_ - g.computed_on.value > policy_->staleness_bound(members))
        fail("applies a gradient beyond its staleness bound: " + to_string(id));
    }
    ++steps_;
  }
}

void audited_cast::check_progress() {
  auto busy = computing();
  if (busy.empty() && !members_.empty())
    fail("nobody computes: a deadlock");
  auto awaited = policy_->waiting_for();
  if (!std::includes(busy.begin(), busy.end(), awaited.begin(), awaited.end()))
    fail("waits for one that does not compute");
  if (awaited.empty() != (busy.size() == members_.size()))
    fail("names workers that it waits for although nobody waits, or none");
}

void audited_cast::check_texts() {
  auto line = policy_->describe();
  if (line.empty() || line.find('\n') != std::string::npos)
    fail("its description is not one line");
  auto state = policy_->save();
  if (state.find('\n') != std::string::npos)
    fail("its state is not one line");
  for (auto& twin : twins_)
    if (twin->save() != state || twin->describe() != line)
      fail("a copy has another state: " + twin->save());
  if (bystander_ && bystander_->save() != bystander_state_)
    fail("a clone changed with its original: " + bystander_->save());
}

void audited_cast::fail(const std::string& why) const {
  throw std::logic_error(why + "; event: " + event_ +
                         "; now: " + policy_->describe());
}

} // namespace troupe::test
