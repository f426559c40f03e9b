#include "actors/core/membership.hpp"

#include "actors/policies/mutation.hpp"

#include <algorithm>

namespace troupe::cores {

std::string_view to_string(turned_away x) {
  switch (x) {
  case turned_away::rank_taken:
    return "rank_taken";
  case turned_away::rank_too_high:
    return "rank_too_high";
  case turned_away::cluster_full:
    return "cluster_full";
  case turned_away::too_many:
    return "too_many";
  }
  return "???";
}

membership::membership(const membership_rules& rules, double now)
  : rules_(rules), opened_(now) {
  // nop
}

// -- joining and leaving ------------------------------------------------------

std::variant<seat, turned_away> membership::admit(std::optional<worker_id> rank,
                                                  double now) {
  auto who = rank.value_or(lowest_free());
  if (live_.contains(who))
    return turned_away::rank_taken;
  if (live_.size() >= rules_.most)
    return turned_away::too_many;
  if (who.value >= rules_.max_ranks)
    return rank ? turned_away::rank_too_high : turned_away::cluster_full;
  occupy(who.value);
  auto& life = lives_[who];
  if (life.value == 0 || !mutation(bug::life_not_counted))
    life = life.next();
  seat result{who, life, ++change_};
  live_.emplace(who, member{result, now});
  return result;
}

worker_id membership::lowest_free() const {
  auto found = free_.lower_bound(rules_.kept);
  return worker_id{found != free_.end() ? *found : std::max(top_, rules_.kept)};
}

void membership::occupy(uint32_t rank) {
  for (; top_ <= rank; ++top_)
    free_.insert(free_.end(), top_);
  free_.erase(rank);
}

bool membership::leave(worker_id who, life_number life) {
  if (!contains(who, life))
    return false;
  live_.erase(who);
  free_.insert(who.value);
  ++change_;
  return true;
}

void membership::remember(worker_id who, life_number life) {
  auto& known = lives_[who];
  known = std::max(known, life);
}

// -- liveness -----------------------------------------------------------------

bool membership::heard(worker_id who, life_number life, double now) {
  if (!contains(who, life))
    return false;
  auto& last = live_.at(who).heard;
  last = std::max(last, now);
  return true;
}

void membership::excuse(double seconds, double now) {
  for (auto& [who, m] : live_)
    m.heard = std::min(now, m.heard + seconds);
}

std::vector<seat> membership::silent(double now, double timeout) const {
  std::vector<seat> result;
  for (auto& [who, m] : live_)
    if (now - m.heard > timeout)
      result.push_back(m.place);
  return result;
}

// -- start of training --------------------------------------------------------

bool membership::start_if_due(double now) {
  auto due = live_.size() >= rules_.workers ||
             (now >= join_deadline() && live_.size() >= rules_.fewest);
  if (started_ || !due)
    return false;
  started_ = true;
  return true;
}

// -- properties ---------------------------------------------------------------

bool membership::contains(worker_id who, life_number life) const {
  auto i = live_.find(who);
  return i != live_.end() && i->second.place.life == life;
}

std::vector<seat> membership::members() const {
  std::vector<seat> result;
  for (auto& [who, m] : live_)
    result.push_back(m.place);
  return result;
}

} // namespace troupe::cores
