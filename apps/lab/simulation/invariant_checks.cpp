// The checks of the invariant checker that no single event shows: samples and
// progress.

#include "apps/lab/simulation/invariant_checker.hpp"
#include "apps/lab/simulation/samples.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

namespace troupe::simulation {

// -- samples ------------------------------------------------------------------

uint32_t invariant_checker::parts() const {
  return std::max<uint32_t>(1, static_cast<uint32_t>(rules_.parts.size()));
}

uint64_t invariant_checker::samples_of(uint32_t part) const {
  return rules_.parts.empty() ? rules_.samples : rules_.parts.at(part);
}

/// Whether one of these samples is in the weights.
bool invariant_checker::covered(const lease& work) const {
  auto found = covered_.find({work.epoch, work.part});
  if (found == covered_.end())
    return false;
  auto after = found->second.lower_bound(work.first + work.count);
  return after != found->second.begin() &&
         std::prev(after)->second > work.first;
}

void invariant_checker::add(const lease& work, coverage& to) {
  auto& all = to[{work.epoch, work.part}];
  auto end = work.first + work.count;
  auto first = work.first;
  if (auto after = all.find(end); after != all.end()) {
    end = after->second;
    all.erase(after);
  }
  if (auto after = all.lower_bound(first); after != all.begin())
    if (auto before = std::prev(after); before->second == first) {
      before->second = end;
      return;
    }
  all[first] = end;
}

void invariant_checker::cover(const lease& work) {
  samples_ += work.count;
  add(work, covered_);
}

/// The samples that are not in the weights, by the checker's own records.
auto invariant_checker::missing(uint64_t epoch, uint32_t part) const -> ranges {
  ranges result;
  uint64_t at = 0;
  auto found = covered_.find({epoch, part});
  if (found != covered_.end())
    for (auto [first, end] : found->second) {
      if (first > at)
        result[at] = first;
      at = end;
    }
  if (at < samples_of(part))
    result[at] = samples_of(part);
  return result;
}

namespace {

using ranges = std::map<uint64_t, uint64_t>;

ranges unsettled_in(const auto& epochs, uint64_t number) {
  ranges result;
  for (const auto& epoch : epochs)
    if (epoch.number() == number)
      for (const auto& range : epoch.unsettled())
        result[range.first()] = range.first() + range.count();
  return result;
}

uint64_t size_of(const ranges& covered) {
  uint64_t sum = 0;
  for (auto [first, end] : covered)
    sum += end - first;
  return sum;
}

bool contains(const ranges& all, uint64_t at) {
  auto after = all.upper_bound(at);
  return after != all.begin() && std::prev(after)->second > at;
}

} // namespace

void invariant_checker::check_ledger(const proto::Manifest& from,
                                     const char* where) {
  const auto& ledger = from.ledger();
  for (const auto& part : ledger.parts())
    check_part(part, ledger.epochs_completed(), where);
  auto epochs = ledger.epochs_opened();
  for (uint64_t epoch = 0; epoch < epochs; ++epoch)
    if (missing(epoch, 0) != unsettled_in(ledger.open_epochs(), epoch))
      return breached("samples", std::string{where} +
                                   " has other samples of epoch " +
                                   std::to_string(epoch) +
                                   " in the weights than were applied");
  if (!rules_.parts.empty())
    return;
  for (const auto& [of, ranges] : covered_)
    if (of.first >= epochs && !ranges.empty())
      return breached("samples", std::string{where} +
                                   " knows nothing of epoch " +
                                   std::to_string(of.first));
}

// Samples that are neither in the weights nor still to come must be counted as
// left out. They are the samples of late gradients, and those of complete
// epochs that an absent rank has not finished.
void invariant_checker::check_part(const proto::DataPart& from,
                                   uint64_t completed, const char* where) {
  auto part = from.part();
  auto wrong = [&](const std::string& text) {
    breached("samples", std::string{where} + " has " + text + " in part " +
                          std::to_string(part));
  };
  auto left_out = left_out_before_[part];
  for (uint64_t epoch = 0; epoch < from.epochs_opened(); ++epoch) {
    auto open = unsettled_in(from.open_epochs(), epoch);
    auto lacks = missing(epoch, part);
    left_out += size_of(lacks) - size_of(open);
    for (auto [first, end] : lacks)
      for (auto at = first; at < end; ++at) {
        auto gone = epoch < completed && was_away(part);
        if (!gone && !contains(open, at) && !contains(late_[{epoch, part}], at))
          return wrong("lost a sample of epoch " + std::to_string(epoch));
      }
    for (auto [first, end] : open)
      for (auto at = first; at < end; ++at)
        if (!contains(lacks, at))
          return wrong("an applied sample of epoch " + std::to_string(epoch) +
                       " to come again");
  }
  if (left_out != from.left_out())
    wrong(std::to_string(from.left_out()) + " samples left out, and not " +
          std::to_string(left_out) + ",");
}

void invariant_checker::check_returned_leases() {
  for (uint32_t part = 0; part < parts(); ++part)
    if (newest_.contains(part) && !was_away(part))
      check_returned_leases(part);
}

// With parts: whether the rank of this part is absent now, or was for a while.
bool invariant_checker::was_away(uint32_t part) const {
  if (rules_.parts.empty())
    return false;
  auto found = members_.find(worker_id{part});
  return away_.contains(part) || found == members_.end() ||
         !found->second.is_member;
}

// For epochs that are not complete, the ledger says which samples were too
// late.
void invariant_checker::recall_late(const proto::DataLedger& from) {
  for (const auto& one : from.parts())
    for (auto epoch = from.epochs_completed(); epoch < one.epochs_opened();
         ++epoch) {
      auto open = unsettled_in(one.open_epochs(), epoch);
      for (auto [first, end] : missing(epoch, one.part()))
        for (auto at = first; at < end; ++at)
          if (!contains(open, at))
            add({lease_id{0}, epoch, at, 1, one.part()}, late_);
    }
}

// The oldest samples are handed out first: samples that were free long before
// later ones were handed out have been lost.
void invariant_checker::check_returned_leases(uint32_t part) {
  const auto& newest = newest_.at(part);
  auto lost = [&](const lease& work, double since) {
    if (newest.given - since > patience())
      breached("samples", text(work) + " were given back and to nobody again");
  };
  for (uint64_t epoch = 0; epoch < newest.what.epoch; ++epoch)
    for (auto [first, end] : missing(epoch, part))
      for (auto at = first; at < end; ++at) {
        if (contains(late_[{epoch, part}], at))
          continue;
        const known_lease* last = nullptr;
        for (const auto& [id, one] : leases_)
          if (overlap(one.what, {id, epoch, at, 1, part}))
            last = &one;
        if (!last)
          lost({lease_id{0}, epoch, at, 1, part}, began_at_);
        else if (last->now == state::free)
          lost(last->what, last->since);
      }
}

void invariant_checker::finish(const proto::Manifest& last,
                               uint64_t samples_applied) {
  if (version{last.step()} != version_)
    breached("kept", "the last checkpoint is of version " +
                       std::to_string(last.step()) + ", the last update made " +
                       to_string(version_));
  check_ledger(last, "the last checkpoint");
  auto in_weights = samples_;
  for (auto [part, count] : left_out_before_)
    in_weights -= count;
  if (samples_applied != in_weights)
    breached("kept", "the summary has " + std::to_string(samples_applied) +
                       " samples applied, the weights have " +
                       std::to_string(in_weights));
  check_returned_leases();
  check_returned_workers();
}

// -- norms --------------------------------------------------------------------

namespace {

double middle_of(std::vector<double> numbers) {
  std::ranges::sort(numbers);
  auto half = numbers.size() / 2;
  return numbers.size() % 2 == 1 ? numbers[half]
                                 : (numbers[half - 1] + numbers[half]) / 2;
}

} // namespace

// As docs/design/0038-outliers.md defines it.
std::optional<double>
invariant_checker::median_of_others(worker_id who, uint64_t samples) const {
  std::vector<double> others;
  for (const auto& [other, all] : norms_) {
    if (other == who)
      continue;
    std::vector<double> recent;
    for (auto i = all.size() - std::min<size_t>(all.size(), 5); i < all.size();
         ++i) {
      auto [norm, count] = all[i];
      recent.push_back(count > samples
                         ? norm * std::sqrt(static_cast<double>(count) /
                                            static_cast<double>(samples))
                         : norm);
    }
    auto newest = recent.back();
    others.push_back(std::max(newest, middle_of(std::move(recent))));
  }
  return others.size() < 2 ? std::nullopt : std::optional{middle_of(others)};
}

void invariant_checker::judged(const inputs::arrived& push) {
  auto wrong = [&](const std::string& how) {
    breached("sound", text(push.header) + how);
  };
  if (!push.norm) {
    if (rules_.norm_factor && push.refused == errc::none)
      wrong(" is not judged by its norm");
    return;
  }
  if (!rules_.norm_factor)
    return wrong(" is judged by its norm, and norms are not watched");
  const auto& [norm, median, is_outlier] = *push.norm;
  auto who = push.header.id.worker;
  auto expected = median_of_others(who, push.header.samples);
  norms_[who].emplace_back(norm, push.header.samples);
  if (median != expected)
    wrong(" is judged by another median than that of the other workers");
  auto beyond =
    expected && *expected > 0 && norm > *rules_.norm_factor * *expected;
  if (beyond != is_outlier || beyond != (push.refused == errc::outlier))
    wrong(beyond ? " is far beyond the others' and not refused"
                 : " is refused as an outlier and is none");
}

// -- faults and progress ------------------------------------------------------

void invariant_checker::enacted(const config::fault& incident, double until) {
  ++counts_.enacted[static_cast<size_t>(incident.what)];
  faults_until_ = std::max(faults_until_, until);
  if (incident.what == config::fault_kind::crash_server ||
      incident.what == config::fault_kind::fail_server)
    is_down_ = true; // But for the messages that it has already.
  if (incident.what == config::fault_kind::stall_recorder)
    stalled_until_ = std::max(stalled_until_, until);
  if (incident.what == config::fault_kind::delay)
    longest_delay_ = std::max(longest_delay_, incident.by);
}

void invariant_checker::process(worker_id who, bool there) {
  processes_[who] = {there, rules_.now()};
}

/// Seconds that the cluster may need to recover: a server that is back waits
/// for its workers; silence is noticed at both ends, one after the other; a
/// retry comes within 5 s; and messages in both directions may have the
/// greatest delay.
double invariant_checker::patience() const {
  return rules_.joining + 3 * rules_.liveness + 10 +
         4 * (longest_delay_ + rules_.transfer);
}

// If all workers wait, one of them must be answered before time passes.
void invariant_checker::check_deadlock() {
  auto waits = [](const auto& entry) {
    return entry.second.waits || !entry.second.is_member;
  };
  auto stalled = rules_.now() < stalled_until_;
  if (stalled || paused_ || is_down_ || cluster() == 0 ||
      !std::ranges::all_of(members_, waits))
    all_wait_since_.reset();
  else if (!all_wait_since_)
    all_wait_since_ = rules_.now();
  else if (rules_.now() > *all_wait_since_)
    breached("progress", "all " + std::to_string(cluster()) +
                           " members wait for an answer");
}

void invariant_checker::check_progress() {
  if (paused_)
    last_update_ = rules_.now();
  auto since = std::max(last_update_, faults_until_);
  auto limit = patience() + 3 * rules_.longest();
  if (rules_.now() - since > limit)
    breached("progress", "no update for " +
                           std::to_string(static_cast<int>(limit)) +
                           " s, with no fault meanwhile");
}

void invariant_checker::check_returned_workers() {
  for (const auto& [who, one] : processes_)
    if (one.there &&
        rules_.now() - std::max(one.since, faults_until_) > patience() &&
        (!members_.contains(who) || !members_.at(who).is_member))
      breached("progress", "worker " + to_string(who) +
                             " has not come back after the last fault");
}

} // namespace troupe::simulation
