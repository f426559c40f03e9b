#include "actors/policies/async.hpp"

#include "actors/policies/rows.hpp"
#include "actors/policies/state_text.hpp"
#include "config/text/settings.hpp"

#include <algorithm>
#include <limits>
#include <stdexcept>

namespace troupe::policies {

async::async(const policy_spec&) {
  // nop
}

void async::reset(version v) {
  current_ = v;
  members_.clear();
}

version async::current() const {
  return current_;
}

decision async::on_join(std::span<const worker_id> who) {
  decision out;
  for (auto id : who)
    if (!members_.try_emplace(id).second)
      throw std::logic_error("worker " + to_string(id) + " joined twice");
  out.release.assign(who.begin(), who.end());
  std::sort(out.release.begin(), out.release.end());
  return out;
}

decision async::on_leave(worker_id who) {
  members_.erase(who);
  return {};
}

decision async::on_arrival(const arrival& push) {
  decision out;
  if (!members_.contains(push.id.worker)) {
    out.drop.push_back(push.id);
    return out;
  }
  current_ = current_.next();
  out.updates.push_back({{{push.id}}});
  out.release.push_back(push.id.worker);
  return out;
}

decision async::on_pull(worker_id who) {
  decision out;
  if (members_.contains(who))
    out.release.push_back(who);
  return out;
}

std::vector<worker_id> async::waiting_for() const {
  return {};
}

// -- text ---------------------------------------------------------------------

std::vector<uint64_t> async::member_numbers() const {
  std::vector<uint64_t> result;
  for (auto& [who, nothing] : members_)
    result.push_back(who.value);
  return result;
}

std::string async::state() const {
  state_writer out{"async"};
  out.number("v", current_.value);
  out.rows("members", 1, member_numbers());
  return out.str();
}

// -- registration -------------------------------------------------------------

row async_row() {
  return {{
            .schema = {"async", {}},
            .other_names = {"asp"}, // asynchronous parallel
            .sentence = [](const config::arguments&,
                           uint32_t) { return "nobody waits"; },
            .gradients_per_step = [](const config::arguments&,
                                     uint32_t) { return 1; },
            .versions_behind = [](const config::arguments&,
                                  uint32_t workers) { return workers; },
            .momentum = config::asynchronous_momentum,
            .compared_as = "async",
          },
          [](const policy_spec& spec) {
            return std::make_unique<async>(spec);
          }};
}

} // namespace troupe::policies
