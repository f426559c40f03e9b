#include "actors/policies/ssp.hpp"

#include "actors/cores/planted.hpp"
#include "actors/policies/state_text.hpp"

#include <algorithm>
#include <limits>
#include <stdexcept>

namespace troupe::policies {

// -- the cast -----------------------------------------------------------------

uint64_t ssp::cast::slowest() const {
  return members_at.empty() ? 0 : members_at.begin()->first;
}

bool ssp::cast::holds(worker_id who, uint64_t clock) const {
  return held.contains({clock, who});
}

void ssp::cast::enter(worker_id who, uint64_t clock) {
  if (!clocks.try_emplace(who, clock).second)
    throw std::logic_error("worker " + to_string(who) + " joined twice");
  ++members_at[clock];
}

void ssp::cast::leave_clock(uint64_t clock) {
  auto i = members_at.find(clock);
  if (--i->second == 0)
    members_at.erase(i);
}

// -- the policy ---------------------------------------------------------------

ssp::ssp(const policy_spec& spec) : staleness_(spec.staleness) {
  // nop
}

std::string_view ssp::name() const {
  return known_as;
}

std::unique_ptr<policy> ssp::clone() const {
  return std::make_unique<ssp>(*this);
}

void ssp::reset(version v) {
  cast_ = cast{};
  cast_.current = v;
}

version ssp::current() const {
  return cast_.current;
}

decision ssp::on_join(std::span<const worker_id> who) {
  decision out;
  auto clock = planted(bug::joiner_at_zero) ? 0 : cast_.slowest();
  for (auto id : who) {
    cast_.enter(id, clock);
    out.release.push_back(id);
  }
  std::sort(out.release.begin(), out.release.end());
  return out;
}

decision ssp::on_leave(worker_id who) {
  decision out;
  auto i = cast_.clocks.find(who);
  if (i == cast_.clocks.end())
    return out;
  cast_.held.erase({i->second, who});
  cast_.leave_clock(i->second);
  cast_.clocks.erase(i);
  if (!planted(bug::barrier_stays))
    release_due(out);
  return out;
}

decision ssp::on_arrival(const arrival& what) {
  decision out;
  auto i = cast_.clocks.find(what.id.worker);
  if (i == cast_.clocks.end() || cast_.holds(i->first, i->second)) {
    out.drop.push_back(what.id);
    return out;
  }
  out.updates.push_back({what.id});
  cast_.current = cast_.current.next();
  // First up, then down: the slowest clock must not be lost in between.
  ++cast_.members_at[i->second + 1];
  cast_.leave_clock(i->second);
  cast_.held.emplace(++i->second, i->first);
  release_due(out);
  return out;
}

decision ssp::on_pull(worker_id who) {
  decision out;
  auto i = cast_.clocks.find(who);
  if (i != cast_.clocks.end() && !cast_.holds(who, i->second))
    out.release.push_back(who);
  return out;
}

void ssp::release_due(decision& out) {
  auto limit = cast_.slowest() + staleness_;
  if (planted(bug::staleness_off_by_one))
    ++limit;
  auto i = cast_.held.begin();
  while (i != cast_.held.end() && i->first <= limit) {
    out.release.push_back(i->second);
    i = cast_.held.erase(i);
  }
  std::sort(out.release.begin(), out.release.end());
}

std::vector<worker_id> ssp::waiting_for() const {
  std::vector<worker_id> result;
  if (cast_.held.empty())
    return result;
  for (auto& [who, clock] : cast_.clocks)
    if (clock == cast_.slowest())
      result.push_back(who);
  return result;
}

uint64_t ssp::staleness_bound(uint32_t members) const {
  if (members == 0)
    return 0;
  auto per_member = 2 * uint64_t{staleness_} + 1;
  auto others = uint64_t{members} - 1;
  constexpr auto max = std::numeric_limits<uint64_t>::max();
  return others > max / per_member ? max : per_member * others;
}

// -- text ---------------------------------------------------------------------

std::string ssp::describe() const {
  std::vector<uint64_t> clocks;
  for (auto& [who, clock] : cast_.clocks)
    clocks.push_back(clock);
  std::vector<uint64_t> held;
  for (auto& [clock, who] : cast_.held)
    held.push_back(who.value);
  return "ssp(s=" + std::to_string(staleness_) +
         ") v=" + to_string(cast_.current) + " clocks=" + brief(clocks) +
         (held.empty() ? "" : " held=" + brief(held));
}

std::string ssp::save() const {
  std::vector<uint64_t> clocks;
  for (auto& [who, clock] : cast_.clocks)
    clocks.insert(clocks.end(), {who.value, clock});
  std::vector<uint64_t> held;
  for (auto& [clock, who] : cast_.held)
    held.push_back(who.value);
  state_writer out{known_as};
  out.number("s", staleness_);
  out.number("v", cast_.current.value);
  out.rows("clocks", 2, clocks);
  out.rows("held", 1, held);
  return out.str();
}

bool ssp::load(std::string_view text) {
  state_reader in{text};
  cast result;
  std::vector<uint64_t> clocks;
  std::vector<uint64_t> held;
  if (!in.name(known_as) || !in.same("s", staleness_) ||
      !in.number("v", result.current.value) || !in.rows("clocks", 2, clocks) ||
      !in.rows("held", 1, held) || !in.end())
    return false;
  auto known = [&](uint64_t who) {
    return who < most_ranks &&
           result.clocks.contains(worker_id{static_cast<uint32_t>(who)});
  };
  for (size_t i = 0; i < clocks.size(); i += 2) {
    if (clocks[i] >= most_ranks || known(clocks[i]))
      return false;
    result.enter(worker_id{static_cast<uint32_t>(clocks[i])}, clocks[i + 1]);
  }
  for (auto x : held) {
    if (!known(x))
      return false;
    worker_id who{static_cast<uint32_t>(x)};
    result.held.emplace(result.clocks[who], who);
  }
  cast_ = std::move(result);
  return true;
}

} // namespace troupe::policies
