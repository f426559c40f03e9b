#include "actors/policies/step_round.hpp"

#include "actors/policies/mutation.hpp"

#include <algorithm>
#include <stdexcept>

namespace troupe::policies {

// -- properties ---------------------------------------------------------------

std::vector<worker_id> step_round::late_in_a_row(version v,
                                                 uint32_t times) const {
  std::vector<worker_id> result;
  for (auto& [who, m] : members_)
    if (m.now == state::computing && m.reads == v && m.late >= times)
      result.push_back(who);
  return result;
}

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
  *this = step_round{late_};
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

void step_round::arrive(const arrival& push, decision& out) {
  auto i = members_.find(push.id.worker);
  if (i == members_.end() || i->second.now != state::computing) {
    out.drop.push_back(push.id);
  } else if (push.computed_on != current_ && late_ == late_gradients::drop &&
             !mutation(bug::late_applied)) {
    out.drop.push_back(push.id);
    ++i->second.late;
    pull(i->first, out);
  } else {
    i->second.now = state::held;
    i->second.late = 0;
    --computing_;
    gradients_.push_back({push.id});
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
    std::ranges::sort(gradients_, {}, &part::id);
    out.updates.push_back({std::move(gradients_)});
    gradients_.clear();
    current_ = current_.next();
  }
  for (auto& [who, m] : members_)
    if (m.now != state::computing)
      release(who, m, out);
}

void step_round::release(worker_id who, member& to, decision& out) {
  to.now = state::computing;
  to.reads = current_;
  ++computing_;
  out.release.push_back(who);
}

// -- text ---------------------------------------------------------------------

void step_round::write(state_writer& out) const {
  std::vector<uint64_t> members;
  for (auto& [who, m] : members_)
    members.insert(members.end(),
                   {who.value, static_cast<uint64_t>(m.now), m.reads.value});
  std::vector<uint64_t> gradients;
  for (auto& [id, weight] : gradients_)
    gradients.insert(gradients.end(),
                     {id.worker.value, id.life.value, id.seq.value});
  out.number("v", current_.value);
  out.rows("members", 3, members);
  out.rows("gradients", 3, gradients);
}

// -- the policy ---------------------------------------------------------------

decision step_round_policy::on_join(std::span<const worker_id> who) {
  decision out;
  round_.join(who);
  close_if_due(out);
  return out;
}

decision step_round_policy::on_leave(worker_id who) {
  decision out;
  round_.leave(who);
  if (!mutation(bug::barrier_stays))
    close_if_due(out);
  return out;
}

decision step_round_policy::on_arrival(const arrival& push) {
  decision out;
  round_.arrive(push, out);
  close_if_due(out);
  return out;
}

decision step_round_policy::on_pull(worker_id who) {
  decision out;
  round_.pull(who, out);
  return out;
}

} // namespace troupe::policies
