#include "actors/core/push_window.hpp"

#include "actors/policies/mutation.hpp"

#include <algorithm>

namespace troupe::cores {

namespace {

bool contains(const std::vector<uint64_t>& xs, uint64_t x) {
  return std::find(xs.begin(), xs.end(), x) != xs.end();
}

} // namespace

std::string_view to_string(freshness x) {
  switch (x) {
  case freshness::fresh:
    return "fresh";
  case freshness::duplicate_pending:
    return "duplicate_pending";
  case freshness::duplicate_done:
    return "duplicate_done";
  case freshness::stale_incarnation:
    return "stale_incarnation";
  case freshness::out_of_order:
    return "out_of_order";
  }
  return "???";
}

push_window::push_window(uint32_t in_flight)
  : in_flight_(std::max(in_flight, 1u)) {
  // nop
}

void push_window::set_life(worker_id who, life_number life) {
  workers_[who] = record{life, 0, {}, {}};
}

void push_window::forget(worker_id who) {
  workers_.erase(who);
}

freshness push_window::look_at(const push_id& id) const {
  auto i = workers_.find(id.worker);
  if (i == workers_.end() ||
      (i->second.life != id.life && !mutation(bug::stale_incarnation)))
    return freshness::stale_incarnation;
  if (mutation(bug::deduplication_off) && id.seq.value <= i->second.last &&
      !contains(i->second.pending, id.seq.value))
    return freshness::fresh;
  const auto& who = i->second;
  auto number = id.seq.value;
  if (number == 0)
    return freshness::out_of_order;
  if (contains(who.pending, number))
    return freshness::duplicate_pending;
  if (number <= who.last && !contains(who.skipped, number))
    return freshness::duplicate_done;
  return who.pending.size() >= in_flight_ ? freshness::out_of_order
                                          : freshness::fresh;
}

freshness push_window::admit(const push_id& id) {
  auto found = look_at(id);
  if (found != freshness::fresh)
    return found;
  auto& who = workers_.find(id.worker)->second;
  auto number = id.seq.value;
  if (mutation(bug::deduplication_off) && number <= who.last)
    return found;
  who.pending.push_back(number);
  if (number < who.last) {
    std::erase(who.skipped, number);
    return freshness::fresh;
  }
  // The worker has given up all pushes that are a full window below the newest.
  auto oldest = number - std::min<uint64_t>(number - 1, in_flight_ - 1);
  std::erase_if(who.skipped, [=](uint64_t x) { return x < oldest; });
  for (auto x = std::max(who.last + 1, oldest); x < number; ++x)
    who.skipped.push_back(x);
  who.last = number;
  return freshness::fresh;
}

void push_window::answered(worker_id who) {
  if (auto i = workers_.find(who); i != workers_.end())
    i->second.pending.clear();
}

bool push_window::done(const push_id& id) {
  auto i = workers_.find(id.worker);
  return i != workers_.end() && i->second.life == id.life &&
         std::erase(i->second.pending, id.seq.value) > 0;
}

} // namespace troupe::cores
