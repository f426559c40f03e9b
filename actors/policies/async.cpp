#include "actors/policies/async.hpp"

#include "actors/policies/state_text.hpp"

#include <algorithm>
#include <limits>
#include <stdexcept>

namespace troupe::policies {

async::async(const policy_spec&) {
  // nop
}

std::string_view async::name() const {
  return known_as;
}

std::unique_ptr<policy> async::clone() const {
  return std::make_unique<async>(*this);
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

decision async::on_arrival(const arrival& what) {
  decision out;
  if (!members_.contains(what.id.worker)) {
    out.drop.push_back(what.id);
    return out;
  }
  current_ = current_.next();
  out.updates.push_back({what.id});
  out.release.push_back(what.id.worker);
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

uint64_t async::staleness_bound(uint32_t) const {
  return std::numeric_limits<uint64_t>::max();
}

// -- text ---------------------------------------------------------------------

std::vector<uint64_t> async::member_numbers() const {
  std::vector<uint64_t> result;
  for (auto& [who, nothing] : members_)
    result.push_back(who.value);
  return result;
}

std::string async::describe() const {
  return "async v=" + to_string(current_) +
         " computing=" + brief(member_numbers());
}

std::string async::save() const {
  state_writer out{known_as};
  out.number("v", current_.value);
  out.rows("members", 1, member_numbers());
  return out.str();
}

bool async::load(std::string_view text) {
  state_reader in{text};
  version v;
  std::vector<uint64_t> numbers;
  if (!in.name(known_as) || !in.number("v", v.value) ||
      !in.rows("members", 1, numbers) || !in.end())
    return false;
  by_rank<member> members;
  for (auto x : numbers)
    if (x >= most_ranks ||
        !members.try_emplace(worker_id{static_cast<uint32_t>(x)}).second)
      return false;
  current_ = v;
  members_ = std::move(members);
  return true;
}

} // namespace troupe::policies
