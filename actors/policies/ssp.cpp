#include "actors/policies/ssp.hpp"

#include "actors/policies/mutation.hpp"
#include "actors/policies/rows.hpp"
#include "actors/policies/state_text.hpp"
#include "config/text/settings.hpp"
#include "config/text/text.hpp"

#include <algorithm>
#include <limits>
#include <stdexcept>

namespace troupe::policies {

// -- the cluster
// -----------------------------------------------------------------

uint64_t ssp::clocks::slowest() const {
  return members_at.empty() ? 0 : members_at.begin()->first;
}

bool ssp::clocks::holds(worker_id who, uint64_t clock) const {
  return held.contains({clock, who});
}

void ssp::clocks::enter(worker_id who, uint64_t clock) {
  if (!clocks.try_emplace(who, clock).second)
    throw std::logic_error("worker " + to_string(who) + " joined twice");
  ++members_at[clock];
}

void ssp::clocks::leave_clock(uint64_t clock) {
  auto i = members_at.find(clock);
  if (--i->second == 0)
    members_at.erase(i);
}

// -- the policy ---------------------------------------------------------------

ssp::ssp(const policy_spec& spec)
  : staleness_(spec.parameters.whole("staleness")) {
  // nop
}

void ssp::reset(version v) {
  clocks_ = clocks{};
  clocks_.current = v;
}

version ssp::current() const {
  return clocks_.current;
}

decision ssp::on_join(std::span<const worker_id> who) {
  decision out;
  auto clock = mutation(bug::joiner_at_zero) ? 0 : clocks_.slowest();
  for (auto id : who) {
    clocks_.enter(id, clock);
    out.release.push_back(id);
  }
  std::sort(out.release.begin(), out.release.end());
  return out;
}

decision ssp::on_leave(worker_id who) {
  decision out;
  auto i = clocks_.clocks.find(who);
  if (i == clocks_.clocks.end())
    return out;
  clocks_.held.erase({i->second, who});
  clocks_.leave_clock(i->second);
  clocks_.clocks.erase(i);
  if (!mutation(bug::barrier_stays))
    release_due(out);
  return out;
}

decision ssp::on_arrival(const arrival& push) {
  decision out;
  auto i = clocks_.clocks.find(push.id.worker);
  if (i == clocks_.clocks.end() || clocks_.holds(i->first, i->second)) {
    out.drop.push_back(push.id);
    return out;
  }
  out.updates.push_back({{{push.id}}});
  clocks_.current = clocks_.current.next();
  // Enter the new clock before leaving the old one, so that the slowest clock
  // is never lost in between.
  ++clocks_.members_at[i->second + 1];
  clocks_.leave_clock(i->second);
  clocks_.held.emplace(++i->second, i->first);
  release_due(out);
  return out;
}

decision ssp::on_pull(worker_id who) {
  decision out;
  auto i = clocks_.clocks.find(who);
  if (i != clocks_.clocks.end() && !clocks_.holds(who, i->second))
    out.release.push_back(who);
  return out;
}

void ssp::release_due(decision& out) {
  auto limit = clocks_.slowest() + staleness_;
  if (mutation(bug::staleness_off_by_one))
    ++limit;
  auto i = clocks_.held.begin();
  while (i != clocks_.held.end() && i->first <= limit) {
    out.release.push_back(i->second);
    i = clocks_.held.erase(i);
  }
  std::sort(out.release.begin(), out.release.end());
}

std::vector<worker_id> ssp::waiting_for() const {
  std::vector<worker_id> result;
  if (clocks_.held.empty())
    return result;
  for (auto& [who, clock] : clocks_.clocks)
    if (clock == clocks_.slowest())
      result.push_back(who);
  return result;
}

// -- text ---------------------------------------------------------------------

std::string ssp::state() const {
  std::vector<uint64_t> clocks;
  for (auto& [who, clock] : clocks_.clocks)
    clocks.insert(clocks.end(), {who.value, clock});
  std::vector<uint64_t> held;
  for (auto& [clock, who] : clocks_.held)
    held.push_back(who.value);
  state_writer out{"ssp"};
  out.number("s", staleness_);
  out.number("v", clocks_.current.value);
  out.rows("clocks", 2, clocks);
  out.rows("held", 1, held);
  return out.str();
}

// -- registration -------------------------------------------------------------

namespace {

using config::arguments;

uint64_t bound(const arguments& of) {
  return of.whole("staleness");
}

/// (2s+1)(n-1), saturated.
uint64_t staleness(const arguments& of, uint64_t members) {
  constexpr auto most = std::numeric_limits<uint64_t>::max();
  auto others = members == 0 ? 0 : members - 1;
  auto each = 2 * bound(of) + 1;
  return others > most / each ? most : each * others;
}

} // namespace

row ssp_row() {
  constexpr auto most = std::numeric_limits<uint32_t>::max();
  return {
    {
      .schema = {"ssp",
                 {{"staleness", "S",
                   "clocks that the fastest worker may be ahead of the slowest",
                   config::whole(0, most), "3"}}},
      .sentence =
        [](const arguments& of, uint32_t) {
          return "the fastest worker is at most " +
                 config::count(bound(of), "clock") + " ahead of the slowest";
        },
      .gradients_per_step = [](const arguments&, uint32_t) { return 1; },
      .versions_behind = [](const arguments&,
                            uint32_t workers) { return workers; },
      .momentum = config::asynchronous_momentum,
      .staleness = staleness,
      .clocks_ahead = bound,
      .compared_as = "ssp:3",
    },
    [](const policy_spec& spec) {
      return std::make_unique<ssp>(spec);
    }};
}

} // namespace troupe::policies
