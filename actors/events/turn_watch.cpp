#include "actors/events/turn_watch.hpp"

#include "config/text/value.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

namespace troupe {

namespace {

constexpr double floor_of_limit = 5; // s
constexpr double times_longer = 10;
constexpr size_t least_turns = 10;
constexpr size_t most_turns = 200;
constexpr double interval_of_looks = 0.5; // s
constexpr double soon = 0.1;              // s: nobody is late before.

/// The time that 99 of 100 do not exceed.
double usual(const std::deque<double>& times) {
  std::vector<double> sorted{times.begin(), times.end()};
  auto at = static_cast<size_t>(
    std::ceil(0.99 * static_cast<double>(sorted.size())) - 1);
  std::ranges::nth_element(sorted, sorted.begin() + static_cast<long>(at));
  return sorted[at];
}

} // namespace

void turn_watch::on_event(const event& entry) {
  if (!first_)
    first_ = entry.time;
  auto now = awake(entry.time);
  if (const auto* in = std::get_if<inputs::enlisted>(&entry.what)) {
    workers_[in->who] = worker{in->life};
  } else if (const auto* out = std::get_if<inputs::left>(&entry.what)) {
    workers_.erase(out->who);
  } else if (const auto* push = std::get_if<inputs::arrived>(&entry.what)) {
    end_turn(push->header.id.worker, now);
  } else if (const auto* pull = std::get_if<inputs::pulled>(&entry.what)) {
    if (auto asks = workers_.find(pull->header.worker); asks != workers_.end())
      asks->second.began.reset(); // It was cancelled.
  }
  for (const auto& next : entry.decided.release)
    if (auto found = workers_.find(next.worker); found != workers_.end()) {
      found->second.began = found->second.showed = now;
      found->second.silence = 0;
    }
}

double turn_watch::interval() const {
  return limit_ && *limit_ > 0 ? std::min(*limit_ / 4, interval_of_looks)
                               : interval_of_looks;
}

std::vector<turn_watch::hung> turn_watch::look(time_point now, bool listens) {
  if (!first_)
    first_ = now;
  std::chrono::duration<double> since = now - looked_.value_or(now);
  stood_still_ +=
    listens ? std::max(0.0, since.count() - 2 * interval()) : since.count();
  looked_ = now;
  quickest_ = std::numeric_limits<double>::infinity();
  for (const auto& [id, one] : workers_)
    if (!one.turns.empty())
      quickest_ = std::min(quickest_, usual(one.turns));
  std::vector<hung> out;
  for (auto& [who, one] : workers_) {
    if (!one.began)
      continue;
    if (silence_of(one) <= limit_of(one) ||
        !others_went_on_since(who, *one.began))
      continue;
    auto local = one.steps > 0;
    auto reason = std::string{local ? "hangs: no local step for "
                                    : "hangs: no gradient for "} +
                  config::print(std::round(10 * silence_of(one)) / 10) + " s";
    if (!limit_)
      reason +=
        ", where its " + std::string{local ? "steps" : "turns"} + " take " +
        config::print(std::round(1000 * usual(one.silences)) / 1000) + " s";
    out.push_back({who, one.life, std::move(reason)});
    one.began.reset();
  }
  return out;
}

std::vector<worker_id> turn_watch::silent() const {
  std::vector<worker_id> out;
  for (const auto& [who, one] : workers_)
    if (one.began && looked_ && silence_of(one) > soon && limit_ != 0)
      out.push_back(who);
  return out;
}

void turn_watch::note_steps(worker_id who, life_number life, uint64_t steps,
                            time_point now) {
  auto found = workers_.find(who);
  if (found == workers_.end() || found->second.life != life ||
      std::exchange(found->second.steps, steps) == steps)
    return;
  auto& one = found->second;
  one.silence = std::max(one.silence, awake(now) - one.showed);
  one.went_on = one.showed = awake(now);
}

bool turn_watch::is_late(worker_id who) const {
  auto found = workers_.find(who);
  if (found == workers_.end() || !found->second.began || !looked_)
    return false;
  return lasts(found->second) > std::max(soon, 2 * quickest_);
}

double turn_watch::awake(time_point now) const {
  std::chrono::duration<double> since = now - *first_;
  return since.count() - stood_still_;
}

void turn_watch::end_turn(worker_id who, double now) {
  auto found = workers_.find(who);
  if (found == workers_.end())
    return;
  auto& one = found->second;
  one.went_on = now;
  if (!one.began)
    return;
  one.turns.push_back(now - *one.began);
  one.silences.push_back(std::max(one.silence, now - one.showed));
  one.began.reset();
  if (one.turns.size() > most_turns) {
    one.turns.pop_front();
    one.silences.pop_front();
  }
}

double turn_watch::lasts(const worker& one) const {
  return awake(*looked_) - *one.began;
}

double turn_watch::silence_of(const worker& one) const {
  return awake(*looked_) - one.showed;
}

double turn_watch::limit_of(const worker& one) const {
  if (limit_ && *limit_ > 0)
    return *limit_;
  if (limit_ || one.turns.size() < least_turns)
    return std::numeric_limits<double>::infinity();
  return std::max(floor_of_limit, times_longer * usual(one.silences));
}

bool turn_watch::others_went_on_since(worker_id who, double then) const {
  for (const auto& [id, one] : workers_)
    if (id != who && one.went_on && *one.went_on > then)
      return true;
  return false;
}

} // namespace troupe
