#include "actors/policies/step_round.hpp"

#include "actors/cores/planted.hpp"

#include <algorithm>
#include <limits>
#include <stdexcept>

namespace troupe::policies {

// -- properties ---------------------------------------------------------------

std::vector<worker_id> step_round::computing_on(version v) const {
  std::vector<worker_id> result;
  for (auto& [who, m] : members_)
    if (m.now == state::computing && m.reads == v)
      result.push_back(who);
  return result;
}

std::vector<worker_id> step_round::waiting_for() const {
  std::vector<worker_id> result;
  if (computing_ == members_.size())
    return result;
  for (auto& [who, m] : members_)
    if (m.now == state::computing)
      result.push_back(who);
  return result;
}

// -- events -------------------------------------------------------------------

void step_round::reset(version v) {
  *this = step_round{};
  current_ = v;
}

void step_round::join(std::span<const worker_id> who) {
  for (auto id : who)
    if (!members_.try_emplace(id).second)
      throw std::logic_error("worker " + to_string(id) + " joined twice");
}

void step_round::leave(worker_id who) {
  auto i = members_.find(who);
  if (i == members_.end())
    return;
  if (i->second.now == state::computing)
    --computing_;
  members_.erase(i);
}

void step_round::arrive(const arrival& what, decision& out) {
  auto i = members_.find(what.id.worker);
  if (i == members_.end() || i->second.now != state::computing) {
    out.drop.push_back(what.id);
  } else if (what.computed_on != current_ && !planted(bug::late_applied)) {
    out.drop.push_back(what.id);
    pull(i->first, out);
  } else {
    i->second.now = state::held;
    --computing_;
    gradients_.push_back(what.id);
  }
}

void step_round::pull(worker_id who, decision& out) {
  auto i = members_.find(who);
  if (i == members_.end() || i->second.now != state::computing)
    return;
  --computing_;
  release(i->first, i->second, out);
}

void step_round::close(decision& out) {
  if (!gradients_.empty()) {
    std::sort(gradients_.begin(), gradients_.end());
    out.updates.push_back(std::move(gradients_));
    gradients_.clear();
    current_ = current_.next();
  }
  for (auto& [who, m] : members_)
    if (m.now != state::computing)
      release(who, m, out);
}

void step_round::release(worker_id who, member& what, decision& out) {
  what = {state::computing, current_};
  ++computing_;
  out.release.push_back(who);
}

// -- text ---------------------------------------------------------------------

std::vector<uint64_t> step_round::in_state(state what) const {
  std::vector<uint64_t> result;
  for (auto& [who, m] : members_)
    if (m.now == what)
      result.push_back(who.value);
  return result;
}

std::string step_round::describe() const {
  return "v=" + to_string(current_) +
         " computing=" + brief(in_state(state::computing)) +
         " held=" + brief(in_state(state::held)) +
         " waiting=" + brief(in_state(state::waiting));
}

void step_round::save(state_writer& out) const {
  std::vector<uint64_t> members;
  for (auto& [who, m] : members_)
    members.insert(members.end(),
                   {who.value, static_cast<uint64_t>(m.now), m.reads.value});
  std::vector<uint64_t> gradients;
  for (auto& id : gradients_)
    gradients.insert(gradients.end(),
                     {id.worker.value, id.life.value, id.seq.value});
  out.number("v", current_.value);
  out.rows("members", 3, members);
  out.rows("gradients", 3, gradients);
}

bool step_round::load(state_reader& in) {
  constexpr auto max32 = std::numeric_limits<uint32_t>::max();
  step_round result;
  std::vector<uint64_t> members;
  std::vector<uint64_t> gradients;
  if (!in.number("v", result.current_.value) ||
      !in.rows("members", 3, members) || !in.rows("gradients", 3, gradients))
    return false;
  for (size_t i = 0; i < members.size(); i += 3) {
    auto now = members[i + 1];
    if (members[i] >= most_ranks || now > static_cast<uint64_t>(state::held))
      return false;
    member m{static_cast<state>(now), version{members[i + 2]}};
    worker_id who{static_cast<uint32_t>(members[i])};
    if (!result.members_.try_emplace(who, m).second)
      return false;
    if (m.now == state::computing)
      ++result.computing_;
  }
  for (size_t i = 0; i < gradients.size(); i += 3) {
    if (gradients[i] > max32 || gradients[i + 1] > max32)
      return false;
    result.gradients_.push_back(
      {worker_id{static_cast<uint32_t>(gradients[i])},
       incarnation{static_cast<uint32_t>(gradients[i + 1])},
       sequence{gradients[i + 2]}});
  }
  *this = std::move(result);
  return true;
}

} // namespace troupe::policies
