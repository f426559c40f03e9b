#include "tests/support/twin_policy.hpp"

#include "actors/policies/registration.hpp"
#include "config/text/settings.hpp"

#include <algorithm>
#include <stdexcept>
#include <utility>

namespace troupe::test {

void twin_policy::reset(version v) {
  current_ = v;
  members_.clear();
  waiting_.clear();
  held_.clear();
}

policies::decision twin_policy::on_join(std::span<const worker_id> who) {
  policies::decision out;
  for (auto id : who)
    if (!members_.insert(id).second)
      throw std::logic_error("worker " + to_string(id) + " joined twice");
  out.release.assign(who.begin(), who.end());
  return out;
}

policies::decision twin_policy::on_leave(worker_id who) {
  members_.erase(who);
  waiting_.erase(who);
  return apply_if_due();
}

policies::decision twin_policy::on_arrival(const policies::arrival& push) {
  policies::decision out;
  if (!members_.contains(push.id.worker)) {
    out.drop.push_back(push.id);
    return out;
  }
  waiting_.insert(push.id.worker);
  held_.push_back(push.id);
  return apply_if_due();
}

policies::decision twin_policy::on_pull(worker_id who) {
  policies::decision out;
  if (members_.contains(who))
    out.release.push_back(who);
  return out;
}

// When all members wait, no second gradient comes.
policies::decision twin_policy::apply_if_due() {
  policies::decision out;
  if (held_.size() < 2 && waiting_ != members_)
    return out;
  for (const auto& one : std::exchange(held_, {})) {
    out.updates.push_back({{{one}}});
    current_ = current_.next();
  }
  out.release.assign(waiting_.begin(), waiting_.end());
  waiting_.clear();
  return out;
}

std::vector<worker_id> twin_policy::waiting_for() const {
  std::vector<worker_id> out;
  if (!waiting_.empty())
    std::ranges::set_difference(members_, waiting_, std::back_inserter(out));
  return out;
}

std::string twin_policy::state() const {
  auto out = "twins v=" + to_string(current_) + " members=";
  for (auto who : members_)
    out += to_string(who) + ",";
  out += " held=";
  for (const auto& one : held_)
    out += to_string(one) + ",";
  return out;
}

namespace {

const policies::register_policy twins{
  {{.schema = {"twins", {}},
    .sentence = [](const config::arguments&,
                   uint32_t) { return "two gradients make two steps"; },
    .gradients_per_step = [](const config::arguments&, uint32_t) { return 1; },
    .versions_behind = [](const config::arguments&,
                          uint32_t workers) { return workers + 2; },
    .momentum = config::asynchronous_momentum},
   [](const policies::policy_spec&) {
     return std::make_unique<twin_policy>();
   }}};

} // namespace

} // namespace troupe::test
