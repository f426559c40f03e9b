#include "tests/support/twin_policy.hpp"

#include "actors/policies/registration.hpp"
#include "config/text/settings.hpp"

#include <stdexcept>
#include <utility>

namespace troupe::test {

void twin_policy::reset(version v) {
  current_ = v;
  members_.clear();
  first_.reset();
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
  return {};
}

policies::decision twin_policy::on_arrival(const policies::arrival& what) {
  policies::decision out;
  if (!members_.contains(what.id.worker)) {
    out.drop.push_back(what.id);
    return out;
  }
  out.release.push_back(what.id.worker);
  if (!first_) {
    first_ = what.id;
    return out;
  }
  out.updates = {{{{*std::exchange(first_, std::nullopt)}}}, {{{what.id}}}};
  current_ = current_.next().next();
  return out;
}

policies::decision twin_policy::on_pull(worker_id who) {
  policies::decision out;
  if (members_.contains(who))
    out.release.push_back(who);
  return out;
}

std::string twin_policy::state() const {
  auto out = "twins v=" + to_string(current_) +
             " first=" + (first_ ? to_string(*first_) : "none") + " members=";
  for (auto who : members_)
    out += to_string(who) + ",";
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
