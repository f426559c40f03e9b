// What the watcher holds the run to that no single event shows: its samples,
// and that it goes on.

#include "actors/simulation/samples.hpp"
#include "actors/simulation/watcher.hpp"

#include <algorithm>
#include <utility>

namespace troupe::simulation {

// -- samples ------------------------------------------------------------------

/// Whether one of these samples is in the weights.
bool watcher::covered(uint64_t epoch, uint64_t first, uint64_t count) const {
  auto found = covered_.find(epoch);
  if (found == covered_.end())
    return false;
  auto after = found->second.lower_bound(first + count);
  return after != found->second.begin() && std::prev(after)->second > first;
}

void watcher::cover(const lease& what) {
  samples_ += what.count;
  auto& ranges = covered_[what.epoch];
  auto end = what.first + what.count;
  auto first = what.first;
  if (auto after = ranges.find(end); after != ranges.end()) {
    end = after->second;
    ranges.erase(after);
  }
  if (auto after = ranges.lower_bound(first); after != ranges.begin())
    if (auto before = std::prev(after); before->second == first) {
      before->second = end;
      return;
    }
  ranges[first] = end;
}

void watcher::check_ledger(const proto::Manifest& from, const char* where) {
  const auto& ledger = from.ledger();
  // The samples of an epoch that are not in the weights, by our own books.
  auto missing = [&](uint64_t epoch) {
    std::vector<std::pair<uint64_t, uint64_t>> result;
    uint64_t at = 0;
    for (auto [first, end] : covered_[epoch]) {
      if (first > at)
        result.emplace_back(at, first - at);
      at = end;
    }
    if (at < rules_.samples)
      result.emplace_back(at, rules_.samples - at);
    return result;
  };
  std::map<uint64_t, std::vector<std::pair<uint64_t, uint64_t>>> open;
  for (const auto& epoch : ledger.open_epochs())
    for (const auto& range : epoch.unsettled())
      open[epoch.number()].emplace_back(range.first(), range.count());
  auto epochs = ledger.epochs_opened();
  for (uint64_t epoch = 0; epoch < epochs; ++epoch)
    if (missing(epoch) != open[epoch])
      return breached("samples", std::string{where} +
                                   " has other samples of epoch " +
                                   std::to_string(epoch) +
                                   " in the weights than were applied");
  for (const auto& [epoch, ranges] : covered_)
    if (epoch >= epochs && !ranges.empty())
      return breached("samples", std::string{where} +
                                   " knows nothing of epoch " +
                                   std::to_string(epoch));
}

// The oldest samples go out first: those that were free long before later ones
// were given out have been lost.
void watcher::check_returned_leases() {
  if (!newest_)
    return;
  auto lost = [&](const lease& what, double since) {
    if (newest_->given - since > patience())
      breached("samples", text(what) + " were given back and to nobody again");
  };
  for (uint64_t epoch = 0; epoch < newest_->what.epoch; ++epoch) {
    uint64_t at = 0;
    auto gap = [&](uint64_t end) {
      for (; at < end; ++at) {
        const known_lease* last = nullptr;
        for (const auto& [id, one] : leases_)
          if (overlap(one.what, {id, epoch, at, 1}))
            last = &one;
        if (!last)
          lost({lease_id{0}, epoch, at, 1}, began_at_);
        else if (last->now == state::free)
          lost(last->what, last->since);
      }
    };
    for (auto [first, end] : covered_[epoch]) {
      gap(first);
      at = end;
    }
    gap(rules_.samples);
  }
}

void watcher::finish(const proto::Manifest& last, uint64_t samples_applied) {
  if (version{last.step()} != version_)
    breached("kept", "the last checkpoint is of version " +
                       std::to_string(last.step()) + ", the last update made " +
                       to_string(version_));
  check_ledger(last, "the last checkpoint");
  if (samples_applied != samples_)
    breached("kept", "the summary has " + std::to_string(samples_applied) +
                       " samples applied, the weights have " +
                       std::to_string(samples_));
  check_returned_leases();
  check_returned_workers();
}

// -- faults and progress ------------------------------------------------------

void watcher::enacted(const config::fault& what, double until) {
  ++counts_.enacted[static_cast<size_t>(what.what)];
  faults_until_ = std::max(faults_until_, until);
  if (what.what == config::fault_kind::crash_server)
    members_.clear();
  if (what.what == config::fault_kind::delay)
    longest_delay_ = std::max(longest_delay_, what.by);
}

void watcher::process(worker_id who, bool there) {
  processes_[who] = {there, rules_.now()};
}

/// s that the cast may need to find together again: a server that is back waits
/// for its workers; silence is noticed at both ends, one after the other; a
/// retry comes within 5 s; messages there and back are as late as they may be.
double watcher::patience() const {
  return rules_.joining + 3 * rules_.liveness + 10 +
         4 * (longest_delay_ + rules_.transfer);
}

// In a cast in which everybody waits, somebody must be answered before time
// goes on.
void watcher::check_deadlock() {
  auto waits = [](const auto& entry) {
    return entry.second.waits || !entry.second.in_cast;
  };
  if (cast() == 0 || !std::ranges::all_of(members_, waits))
    all_wait_since_.reset();
  else if (!all_wait_since_)
    all_wait_since_ = rules_.now();
  else if (rules_.now() > *all_wait_since_)
    breached("progress",
             "all " + std::to_string(cast()) + " members wait for an answer");
}

void watcher::check_progress() {
  auto since = std::max(last_update_, faults_until_);
  auto limit = patience() + 3 * rules_.longest();
  if (rules_.now() - since > limit)
    breached("progress", "no update for " +
                           std::to_string(static_cast<int>(limit)) +
                           " s, with no fault meanwhile");
}

void watcher::check_returned_workers() {
  for (const auto& [who, one] : processes_)
    if (one.there &&
        rules_.now() - std::max(one.since, faults_until_) > patience() &&
        (!members_.contains(who) || !members_.at(who).in_cast))
      breached("progress", "worker " + to_string(who) +
                             " has not come back after the last fault");
}

} // namespace troupe::simulation
