#include "actors/core/lease_ledger.hpp"

#include "actors/policies/mutation.hpp"

#include <algorithm>
#include <stdexcept>
#include <utility>

namespace troupe::cores {

lease_ledger::lease_ledger(uint64_t samples, uint64_t batch, part_of_data part)
  : samples_(samples), batch_(batch), part_(part),
    next_lease_(uint64_t{part.number} + 1) {
  if (samples == 0 || batch == 0)
    throw std::invalid_argument(
      "a lease ledger needs samples and a batch size");
}

std::optional<lease_ledger> lease_ledger::restore(uint64_t samples,
                                                  uint64_t batch,
                                                  const ledger_state& state,
                                                  part_of_data part) {
  lease_ledger result{samples, batch, part};
  result.next_epoch_ = state.next_epoch;
  result.left_out_ = state.left_out;
  for (auto& epoch : state.epochs) {
    auto [at, added] = result.open_.try_emplace(epoch.number);
    if (!added || epoch.number >= state.next_epoch || epoch.unsettled.empty())
      return std::nullopt;
    uint64_t end = 0;
    for (auto [first, count] : epoch.unsettled) {
      if (first < end || first >= samples || count == 0 ||
          count > samples - first)
        return std::nullopt;
      end = first + count;
      insert(at->second.free, first, count);
      result.unsettled_ += count;
    }
    result.grantable_.insert(epoch.number);
  }
  if (state.left_out > samples * state.next_epoch - result.unsettled_)
    return std::nullopt;
  return result;
}

// -- leases -------------------------------------------------------------------

bool lease_ledger::has_free() const {
  auto next = grantable_.empty() ? next_epoch_ : *grantable_.begin();
  return next < end_.value_or(endless);
}

std::optional<lease> lease_ledger::grant(worker_id who, uint64_t most) {
  if (!has_free())
    return std::nullopt;
  if (grantable_.empty())
    open_epoch();
  auto number = *grantable_.begin();
  auto& epoch = open_[number];
  auto [first, available] = *epoch.free.begin();
  auto count = std::min(available, most > 0 ? most : batch_);
  if (!mutation(bug::lease_granted_twice) || next_lease_.value % 8 != 0) {
    epoch.free.erase(epoch.free.begin());
    if (count < available)
      epoch.free.emplace(first + count, available - count);
    else if (epoch.free.empty())
      grantable_.erase(number);
  }
  ++epoch.out;
  lease result{next_lease_, number, first, count, part_.number};
  next_lease_ = lease_id{next_lease_.value + part_.parts};
  leases_.emplace(result.id, entry{result, who});
  return result;
}

bool lease_ledger::settle(lease_id id) {
  auto out = leases_.find(id);
  if (out == leases_.end())
    return false;
  auto what = take_out(out);
  unsettled_ -= what.count;
  close_if_done(what.epoch);
  return true;
}

bool lease_ledger::leave_out(lease_id id) {
  auto count = leases_.contains(id) ? find(id)->count : 0;
  if (!settle(id))
    return false;
  left_out_ += count;
  return true;
}

void lease_ledger::pass_over(uint64_t epoch) {
  while (!grantable_.empty() && *grantable_.begin() < epoch) {
    auto number = *grantable_.begin();
    for (auto [first, count] : std::exchange(open_[number].free, {})) {
      left_out_ += count;
      unsettled_ -= count;
    }
    grantable_.erase(number);
    close_if_done(number);
  }
  if (epoch > next_epoch_) {
    left_out_ += samples_ * (epoch - next_epoch_);
    next_epoch_ = epoch;
  }
}

bool lease_ledger::give_back(lease_id id) {
  auto out = leases_.find(id);
  if (out == leases_.end())
    return false;
  free(take_out(out));
  return true;
}

std::vector<lease> lease_ledger::give_back_all(worker_id who,
                                               std::span<const lease_id> keep) {
  std::vector<lease> result;
  for (const auto& [id, x] : leases_)
    if (x.holder == who && std::ranges::find(keep, id) == keep.end())
      result.push_back(x.what);
  std::ranges::sort(result, {}, &lease::id);
  for (const auto& what : result)
    give_back(what.id);
  return result;
}

const lease* lease_ledger::find(lease_id id) const {
  auto i = leases_.find(id);
  return i == leases_.end() ? nullptr : &i->second.what;
}

// -- properties ---------------------------------------------------------------

std::optional<uint64_t> lease_ledger::oldest_out() const {
  std::optional<uint64_t> result;
  for (const auto& [id, x] : leases_)
    result = std::min(result.value_or(x.what.epoch), x.what.epoch);
  return result;
}

uint64_t lease_ledger::epochs_completed() const {
  return open_.empty() ? next_epoch_ : open_.begin()->first;
}

double lease_ledger::epochs() const {
  return static_cast<double>(settled()) / static_cast<double>(samples_);
}

ledger_state lease_ledger::snapshot() const {
  std::map<uint64_t, range_map> unsettled;
  for (auto& [number, epoch] : open_)
    unsettled.emplace(number, epoch.free);
  for (auto& [id, x] : leases_)
    if (!mutation(bug::outstanding_forgotten))
      insert(unsettled[x.what.epoch], x.what.first, x.what.count);
  ledger_state result;
  result.next_epoch = next_epoch_;
  result.left_out = left_out_;
  for (auto& [number, ranges] : unsettled) {
    auto& epoch = result.epochs.emplace_back();
    epoch.number = number;
    for (auto [first, count] : ranges)
      epoch.unsettled.push_back({first, count});
  }
  return result;
}

// -- details ------------------------------------------------------------------

void lease_ledger::insert(range_map& ranges, uint64_t first, uint64_t count) {
  auto after = ranges.lower_bound(first);
  if (after != ranges.end() && after->first == first + count) {
    count += after->second;
    after = ranges.erase(after);
  }
  if (after != ranges.begin()) {
    auto before = std::prev(after);
    if (before->first + before->second == first) {
      before->second += count;
      return;
    }
  }
  ranges.emplace_hint(after, first, count);
}

void lease_ledger::open_epoch() {
  open_[next_epoch_].free.emplace(0, samples_);
  grantable_.insert(next_epoch_);
  unsettled_ += samples_;
  ++next_epoch_;
}

lease lease_ledger::take_out(lease_map::iterator which) {
  auto result = which->second.what;
  leases_.erase(which);
  --open_[result.epoch].out;
  return result;
}

void lease_ledger::free(const lease& work) {
  insert(open_[work.epoch].free, work.first, work.count);
  grantable_.insert(work.epoch);
}

void lease_ledger::close_if_done(uint64_t epoch) {
  auto found = open_.find(epoch);
  if (found->second.out == 0 && found->second.free.empty())
    open_.erase(found);
}

} // namespace troupe::cores
