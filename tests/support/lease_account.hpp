#pragma once
// Follows each lease of a run through its event logs: a lease must be handed
// out once and then either applied once, or returned once before its samples go
// to another worker. Owned by a test.

#include "actors/log_files/event_log_file.hpp"

#include <algorithm>
#include <filesystem>
#include <map>
#include <set>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

namespace troupe::test {

class lease_account {
public:
  /// Adds one life of the server. Only updates up to version `last`, from which
  /// the next life continues, count as applied.
  void add(const std::filesystem::path& event_log, uint64_t last = UINT64_MAX) {
    recording::event_log_reader from{event_log};
    out_.clear();
    held_.clear();
    seen_.clear();
    for (proto::LogEvent event; from.next(event);) {
      if (event.has_pulled() && event.pulled().abandoned() != 0)
        give_back(event.pulled().abandoned(), "abandoned");
      if (event.has_arrived())
        take(event.arrived());
      if (event.has_left())
        lose(event.left().worker());
      follow(event.decision(), last);
    }
  }

  /// The violations, one line each.
  const std::vector<std::string>& breaches() const { return breaches_; }

  /// The number of samples of an epoch that are in the weights.
  uint64_t applied(uint64_t epoch) const {
    auto found = applied_.find(epoch);
    return found == applied_.end() ? 0 : found->second.size();
  }

  /// The same for all epochs.
  uint64_t applied() const {
    uint64_t sum = 0;
    for (const auto& [epoch, positions] : applied_)
      sum += positions.size();
    return sum;
  }

  /// Leases whose samples were not applied.
  uint64_t returned() const { return returned_; }

private:
  struct lent {
    proto::LogLease what;
    uint32_t worker = 0;
  };

  using push = std::tuple<uint32_t, uint32_t, uint64_t>;

  template <class Push>
  static push id_of(const Push& what) {
    return {what.worker(), what.life(), what.sequence()};
  }

  void complain(uint64_t id, const std::string& what) {
    breaches_.push_back("lease " + std::to_string(id) + " " + what);
  }

  void take(const proto::LogArrived& what) {
    if (held_.contains(id_of(what)))
      complain(what.lease().id(), "came in twice");
    take(what, what.lease().id());
    for (const auto& other : what.also())
      take(what, other.id());
  }

  void take(const proto::LogArrived& what, uint64_t id) {
    auto found = out_.find(id);
    if (!what.refused().empty()) {
      if (found != out_.end())
        give_back(id, "refused");
    } else if (found == out_.end()) {
      complain(id, "came in and is not out");
    } else if (found->second.worker != what.worker()) {
      complain(id, "came from another worker than it was given to");
    } else {
      held_[id_of(what)].push_back(id);
    }
  }

  void lose(uint32_t worker) {
    std::set<uint64_t> with_the_policy;
    for (const auto& [gradient, ids] : held_)
      with_the_policy.insert(ids.begin(), ids.end());
    std::erase_if(out_, [&](const auto& each) {
      auto gone =
        each.second.worker == worker && !with_the_policy.contains(each.first);
      returned_ += gone;
      return gone;
    });
  }

  void give_back(uint64_t id, const std::string& how) {
    if (out_.erase(id) == 0)
      complain(id, how + " and is not out");
    ++returned_;
  }

  std::vector<uint64_t> let_go(const push& gradient) {
    auto found = held_.extract(gradient);
    if (found)
      return found.mapped();
    breaches_.push_back("a gradient was decided on that did not come in");
    return {};
  }

  void follow(const proto::LogDecision& what, uint64_t last) {
    for (const auto& late : what.drops())
      for (auto id : let_go(id_of(late)))
        give_back(id, "dropped");
    for (const auto& step : what.updates())
      for (const auto& gradient : step.gradients())
        for (auto id : let_go(id_of(gradient)))
          settle(id, step.makes() <= last);
    for (const auto& release : what.releases())
      for (const auto& lease : release.leases())
        hand_out(lease, release.worker());
  }

  void settle(uint64_t id, bool counts) {
    auto found = out_.extract(id);
    if (!found)
      return complain(id, "was applied and is not out");
    const auto& what = found.mapped().what;
    auto& positions = applied_[what.epoch()];
    for (auto i = what.first(); counts && i < what.first() + what.count(); ++i)
      if (!positions.insert(i).second)
        complain(id, "has applied position " + std::to_string(i) +
                       " of epoch " + std::to_string(what.epoch()) + " again");
  }

  void hand_out(const proto::LogLease& what, uint32_t worker) {
    if (!seen_.insert(what.id()).second)
      complain(what.id(), "was handed out twice");
    for (const auto& [id, other] : out_)
      if (other.what.epoch() == what.epoch() &&
          other.what.first() < what.first() + what.count() &&
          what.first() < other.what.first() + other.what.count())
        complain(what.id(), "has samples of lease " + std::to_string(id));
    out_.insert_or_assign(what.id(), lent{what, worker});
  }

  std::map<uint64_t, lent> out_; ///< Leases handed out in this life.
  /// Leases of gradients not decided on yet.
  std::map<push, std::vector<uint64_t>> held_;
  std::set<uint64_t> seen_;
  std::map<uint64_t, std::set<uint64_t>> applied_; ///< Positions by epoch.
  uint64_t returned_ = 0;
  std::vector<std::string> breaches_;
};

} // namespace troupe::test
