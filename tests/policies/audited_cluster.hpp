#pragma once
// A cluster without actors: plays the workers of a policy and checks every
// decision against what actors/policies/policy.hpp promises. A violation throws
// `std::logic_error` with the event and the policy's state. Not thread-safe.

#include "actors/policies/policy.hpp"
#include "config/schema/policies.hpp"

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace troupe::test {

/// A decision as short text, its parts in the order in which they are carried
/// out: `drop 3, update 0 1, release 0 1, cancel 2`; numbers are workers.
/// Weights and rates other than 1 are shown: `update 0*0.5 1 at 0.1`.
inline std::string text(const policies::decision& decision) {
  std::string line;
  auto begin = [&](const char* verb) {
    line += line.empty() ? "" : ", ";
    line += verb;
  };
  auto add = [&](const char* verb, const auto& ids, auto worker_of) {
    if (ids.empty())
      return;
    begin(verb);
    for (const auto& id : ids)
      line += " " + to_string(worker_of(id));
  };
  auto number = [](double x) {
    auto digits = std::to_string(x);
    return digits.substr(0, digits.find_last_not_of('0') + 1);
  };
  add("drop", decision.drop, [](const push_id& id) { return id.worker; });
  for (const auto& update : decision.updates) {
    begin("update");
    for (const auto& [id, weight] : update.gradients)
      line +=
        " " + to_string(id.worker) + (weight == 1 ? "" : "*" + number(weight));
    if (update.rate_factor != 1)
      line += " at " + number(update.rate_factor);
  }
  add("release", decision.release, std::identity{});
  add("cancel", decision.cancel, std::identity{});
  if (decision.window) {
    begin("window ");
    line += number(*decision.window);
  }
  return line;
}

class audited_cluster {
public:
  explicit audited_cluster(const policies::policy_spec& spec)
    : policy_(policies::make_policy(spec)), twin_(policies::make_policy(spec)),
      spec_(spec) {
    policy_->reset(version{0});
    twin_->reset(version{0});
  }

  // -- events -----------------------------------------------------------------

  policies::decision join(const std::vector<worker_id>& who) {
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

  policies::decision leave(worker_id who) {
    members_.erase(who);
    return feed("leave " + to_string(who),
                [&](policies::policy& x) { return x.on_leave(who); });
  }

  /// The gradient of a computing member arrives.
  policies::decision push(worker_id who) {
    auto& m = members_.at(who);
    m.now = state::held;
    push_id id{who, m.life, sequence{++m.pushes}};
    pending_.insert(id);
    gradients_[id] = {m.reads,
                      m.members_at_release + joins_ - m.joins_at_release};
    policies::arrival what{id, m.reads, 1 + m.pushes % 3};
    return feed("push " + to_string(id) + " of v" + to_string(m.reads),
                [&](policies::policy& x) { return x.on_arrival(what); });
  }

  /// A computing member abandons its lease.
  policies::decision pull(worker_id who) {
    members_.at(who).now = state::waiting;
    return feed("pull " + to_string(who),
                [&](policies::policy& x) { return x.on_pull(who); });
  }

  /// The window of the newest version is over. @pre has_window()
  policies::decision end_window() {
    auto at = *std::exchange(window_, std::nullopt);
    return feed("window of v" + to_string(at) + " over",
                [&](policies::policy& x) { return x.on_window_over(at); });
  }

  // -- properties -------------------------------------------------------------

  /// Whether a window has begun that still means something.
  bool has_window() const { return window_ == policy_->current(); }

  policies::policy& policy() { return *policy_; }

  const policies::policy& policy() const { return *policy_; }

  size_t size() const { return members_.size(); }

  bool contains(worker_id who) const { return members_.contains(who); }

  std::vector<worker_id> computing() const {
    return those([](const member& m) { return m.now == state::computing; });
  }

  /// The computing members that were told to stop.
  std::vector<worker_id> cancelled() const {
    return those(
      [](const member& m) { return m.now == state::computing && m.cancelled; });
  }

  /// Gradients that have been neither applied nor dropped.
  const std::set<push_id>& pending() const { return pending_; }

  uint64_t steps() const { return steps_; }

private:
  enum class state { waiting, computing, held };

  struct member {
    state now = state::waiting;
    bool cancelled = false;
    version reads;
    uint64_t pushes = 0;
    life_number life;
    /// Members at the release, plus those that joined before: joins seen since
    /// give the number of members that were there during a computation.
    uint64_t members_at_release = 0;
    uint64_t joins_at_release = 0;
  };

  struct gradient {
    version computed_on;
    uint64_t members_meanwhile = 0;
  };

  template <class Predicate>
  std::vector<worker_id> those(Predicate holds) const {
    std::vector<worker_id> result;
    for (auto& [who, m] : members_)
      if (holds(m))
        result.push_back(who);
    return result;
  }

  template <class T>
  static bool strictly_rising(const std::vector<T>& xs) {
    return std::ranges::adjacent_find(xs, std::ranges::greater_equal{}) ==
           xs.end();
  }

  template <class Event>
  policies::decision feed(const std::string& title, Event event) {
    event_ = title;
    auto result = event(*policy_);
    event_ += " -> " + text(result);
    if (event(*twin_) != result)
      fail("the same events lead to another decision");
    check(result);
    check_progress();
    check_state();
    return result;
  }

  void check(const policies::decision& decision) {
    for (auto& id : decision.drop)
      if (pending_.erase(id) == 0)
        fail("drops what is not pending: " + to_string(id));
    for (const auto& update : decision.updates)
      check_update(update);
    if (policy_->current() != version{steps_})
      fail("counts versions wrongly, must be " + std::to_string(steps_));
    if (!strictly_rising(decision.release) || !strictly_rising(decision.cancel))
      fail("workers are not in order");
    for (auto who : decision.cancel)
      check_cancelled(who);
    for (auto who : decision.release)
      check_released(who);
    if (!decision.window)
      return;
    if (!(*decision.window > 0) || window_ == policy_->current())
      fail("begins a window of no length, or a second one");
    window_ = policy_->current();
  }

  void check_update(const policies::update& update) {
    if (!(update.rate_factor > 0) || !std::isfinite(update.rate_factor))
      fail("an update has a factor of the learning rate that is none");
    double total = 0;
    std::vector<push_id> ids;
    for (const auto& [id, weight] : update.gradients) {
      if (!(weight >= 0) || !std::isfinite(weight))
        fail("a gradient has a weight that is none: " + to_string(id));
      total += weight;
      ids.push_back(id);
      if (pending_.erase(id) == 0)
        fail("applies what is not pending: " + to_string(id));
      if (weight > 0)
        check_staleness(id);
    }
    if (total == 0 || !strictly_rising(ids))
      fail("an update is of nothing, or not in order");
    ++steps_;
  }

  void check_staleness(const push_id& id) {
    const auto& bound = config::find_policy(spec_.name).staleness;
    const auto& g = gradients_.at(id);
    if (bound && steps_ - g.computed_on.value >
                   bound(spec_.parameters, g.members_meanwhile))
      fail("applies a gradient beyond its staleness bound: " + to_string(id));
  }

  void check_cancelled(worker_id who) {
    auto i = members_.find(who);
    if (i == members_.end() || i->second.now != state::computing ||
        i->second.cancelled)
      fail("cancels one that has nothing to stop: " + to_string(who));
    i->second.cancelled = true;
  }

  void check_released(worker_id who) {
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

  void check_progress() {
    auto busy = computing();
    if (busy.empty() && !members_.empty())
      fail("nobody computes: a deadlock");
    auto awaited = policy_->waiting_for();
    if (!std::ranges::includes(busy, awaited))
      fail("waits for one that does not compute");
    if (awaited.empty() != (busy.size() == members_.size()))
      fail("names workers that it waits for although nobody waits, or none");
  }

  void check_state() {
    auto line = policy_->state();
    if (line.empty() || line.find('\n') != std::string::npos)
      fail("its state is not one line");
    if (twin_->state() != line)
      fail("the same events lead to another state: " + twin_->state());
  }

  [[noreturn]] void fail(const std::string& why) const {
    throw std::logic_error(why + "; event: " + event_ +
                           "; now: " + policy_->state());
  }

  std::unique_ptr<policies::policy> policy_;
  std::unique_ptr<policies::policy> twin_; ///< Gets the same events.
  policies::policy_spec spec_;
  std::string event_;
  std::map<worker_id, member> members_;
  std::map<worker_id, life_number> lives_;
  std::map<push_id, gradient> gradients_; ///< Of `pending_`.
  std::set<push_id> pending_;
  std::optional<version> window_; ///< Begun at that version, and not over.
  uint64_t steps_ = 0;
  uint64_t joins_ = 0;
};

} // namespace troupe::test
