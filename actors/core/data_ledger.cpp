#include "actors/core/data_ledger.hpp"

#include "actors/policies/mutation.hpp"

#include <algorithm>
#include <stdexcept>
#include <utility>

namespace troupe::cores {

uint64_t samples_of_part(uint64_t samples, uint32_t parts, bool drop_last) {
  if (samples == endless)
    return endless;
  auto whole = samples / parts;
  return drop_last || samples % parts == 0 ? whole : whole + 1;
}

data_ledger::data_ledger(lease_ledger shared) : batch_(shared.batch()) {
  parts_.emplace_back().leases = std::move(shared);
}

data_ledger::data_ledger(uint32_t parts, uint64_t batch)
  : parted_(true), batch_(batch), parts_(parts) {
  if (parts == 0 || batch == 0)
    throw std::invalid_argument(
      "parts of the data need ranks and a batch size");
}

std::optional<data_ledger> data_ledger::restore(const parts_state& state,
                                                uint64_t batch) {
  if (state.parts.empty())
    return std::nullopt;
  data_ledger result{static_cast<uint32_t>(state.parts.size()), batch};
  result.completed_ = state.completed;
  for (uint32_t rank = 0; rank < state.parts.size(); ++rank) {
    const auto& from = state.parts[rank];
    if (!from)
      continue;
    if (from->data.samples == 0)
      return std::nullopt;
    auto& to = result.parts_[rank];
    to.data = from->data;
    to.leases = lease_ledger::restore(from->data.samples, batch, from->ledger,
                                      result.place_of(worker_id{rank}));
    if (!to.leases)
      return std::nullopt;
  }
  return result;
}

// -- ranks present and absent -------------------------------------------------

// A rank that joins late begins with the others' epoch.
bool data_ledger::own(worker_id who, const owned_data& data) {
  auto& mine = parts_.at(who.value);
  if (mine.leases)
    return mine.data == data;
  mine.data = data;
  mine.leases.emplace(data.samples, batch_, place_of(who));
  mine.leases->pass_over(completed_);
  return true;
}

void data_ledger::enter(worker_id who) {
  if (parted_)
    parts_.at(who.value).here = true;
}

void data_ledger::leave(worker_id who) {
  if (parted_)
    parts_.at(who.value).here = false;
}

// -- leases -------------------------------------------------------------------

void data_ledger::end_before(std::optional<uint64_t> epoch) {
  if (!parted_)
    parts_.front().leases->end_before(epoch);
}

bool data_ledger::has_free() const {
  return parted_ || parts_.front().leases->has_free();
}

std::optional<lease> data_ledger::grant(worker_id who, uint64_t most) {
  if (!parted_)
    return parts_.front().leases->grant(who, most);
  auto rank = who.value;
  if (mutation(bug::part_of_another) && rank + 1 < parts_.size())
    ++rank;
  return parts_.at(rank).leases.value().grant(who, most);
}

bool data_ledger::settle(lease_id id) {
  return resolve(id, [id](lease_ledger& of) { return of.settle(id); });
}

bool data_ledger::give_back(lease_id id) {
  return resolve(id, [id](lease_ledger& of) { return of.give_back(id); });
}

bool data_ledger::give_up(lease_id id) {
  if (!parted_)
    return give_back(id);
  return resolve(id, [id](lease_ledger& of) { return of.leave_out(id); });
}

const lease* data_ledger::find(lease_id id) const {
  const auto* from = ledger_of(id);
  return from ? from->find(id) : nullptr;
}

// -- properties ---------------------------------------------------------------

uint64_t data_ledger::samples() const {
  uint64_t sum = 0;
  for (const auto& one : parts_) {
    auto here = one.leases ? one.leases->samples() : 0;
    sum = here == endless || sum == endless ? endless : sum + here;
  }
  return sum;
}

size_t data_ledger::outstanding() const {
  size_t sum = 0;
  for (const auto& one : parts_)
    sum += one.leases ? one.leases->outstanding() : 0;
  return sum;
}

uint64_t data_ledger::settled() const {
  uint64_t sum = 0;
  for (const auto& one : parts_)
    sum += one.leases ? one.leases->settled() : 0;
  return sum;
}

uint64_t data_ledger::left_out() const {
  uint64_t sum = 0;
  for (const auto& one : parts_)
    sum += one.leases ? one.leases->left_out() : 0;
  return sum;
}

uint64_t data_ledger::epochs_completed() const {
  return parted_ ? completed_ : parts_.front().leases->epochs_completed();
}

parts_state data_ledger::snapshot_of_parts() const {
  parts_state result;
  result.completed = completed_;
  for (const auto& one : parts_) {
    auto& to = result.parts.emplace_back();
    if (one.leases)
      to = parts_state::part{one.data, one.leases->snapshot()};
  }
  return result;
}

// -- details ------------------------------------------------------------------

const lease_ledger* data_ledger::ledger_of(lease_id id) const {
  const auto& from = parts_[(id.value - 1) % parts_.size()];
  return id.value == 0 || !from.leases ? nullptr : &*from.leases;
}

lease_ledger* data_ledger::ledger_of(lease_id id) {
  return const_cast<lease_ledger*>(std::as_const(*this).ledger_of(id));
}

part_of_data data_ledger::place_of(worker_id who) const {
  return {who.value, static_cast<uint32_t>(parts_.size())};
}

// Epochs are checked only when a part has completed one, which is rare: the
// check goes through all ranks, and a cluster may have many.
template <class F>
bool data_ledger::resolve(lease_id id, F how) {
  auto* of = ledger_of(id);
  if (!of)
    return false;
  auto before = of->epochs_completed();
  auto result = how(*of);
  if (parted_ && of->epochs_completed() != before)
    close_epochs();
  return result;
}

// The policy may still hold a gradient of a worker that has left; its epoch
// stays open.
void data_ledger::close_epochs() {
  std::optional<uint64_t> done;
  auto bound = [&done](uint64_t epoch) {
    done = std::min(done.value_or(epoch), epoch);
  };
  for (const auto& one : parts_)
    if (one.here && one.leases)
      bound(one.leases->epochs_completed());
  if (!done)
    return;
  for (const auto& one : parts_)
    if (!one.here && one.leases)
      if (auto held = one.leases->oldest_out())
        bound(*held);
  completed_ = std::max(completed_, *done);
  for (auto& one : parts_)
    if (!one.here && one.leases)
      one.leases->pass_over(completed_);
}

} // namespace troupe::cores
