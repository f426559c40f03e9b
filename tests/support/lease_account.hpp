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
        note_arrived(event.arrived());
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
  static push id_of(const Push& push) {
    return {push.worker(), push.life(), push.sequence()};
  }

  void complain(uint64_t id, const std::string& reason) {
    breaches_.push_back("lease " + std::to_string(id) + " " + reason);
  }

  void note_arrived(const proto::LogArrived& record) {
    if (held_.contains(id_of(record)))
      complain(record.lease().id(), "came in twice");
    note_arrived(record, record.lease().id());
    for (const auto& other : record.also())
      note_arrived(record, other.id());
  }

  void note_arrived(const proto::LogArrived& record, uint64_t id) {
    auto found = out_.find(id);
    if (!record.refused().empty()) {
      if (found != out_.end())
        give_back(id, "refused");
    } else if (found == out_.end()) {
      complain(id, "came in and is not out");
    } else if (found->second.worker != record.worker()) {
      complain(id, "came from another worker than it was given to");
    } else {
      held_[id_of(record)].push_back(id);
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

  void follow(const proto::LogDecision& record, uint64_t last) {
    for (const auto& late : record.drops())
      for (auto id : let_go(id_of(late)))
        give_back(id, "dropped");
    for (const auto& step : record.updates())
      for (const auto& gradient : step.gradients())
        for (auto id : let_go(id_of(gradient)))
          settle(id, step.makes() <= last);
    for (const auto& release : record.releases())
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

  void hand_out(const proto::LogLease& record, uint32_t worker) {
    if (!seen_.insert(record.id()).second)
      complain(record.id(), "was handed out twice");
    for (const auto& [id, other] : out_)
      if (other.what.epoch() == record.epoch() &&
          other.what.first() < record.first() + record.count() &&
          record.first() < other.what.first() + other.what.count())
        complain(record.id(), "has samples of lease " + std::to_string(id));
    out_.insert_or_assign(record.id(), lent{record, worker});
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
